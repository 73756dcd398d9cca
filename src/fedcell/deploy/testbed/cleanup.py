"""Remove testbeds: that of this process at its end, and those of processes that were killed."""

import time

from fedcell.core.errors import NoTestbed
from fedcell.deploy.local.process_tree import KILL_GRACE, POLL, terminate

from .cgroups import Groups, find_groups
from .links import delete_namespace, list_namespaces
from .names import owner_lives, processes_in, token_of


def remove_leftovers() -> list[str]:
    """Remove testbeds of processes that are gone, and return the names of what was removed. Those
    of living processes are not touched."""
    gone = [name for name in _names(_groups()) if token_of(name) and not owner_lives(name)]
    for token in sorted({str(token_of(name)) for name in gone}):
        remove(token)
    return gone


def remove(token: str) -> None:
    """Remove all parts of a testbed: processes, namespaces with their devices, control groups. The
    parts are listed from the system, so that those of a half-made testbed are removed, too."""
    groups = _groups()
    names = [name for name in _names(groups) if token_of(name) == token]
    left = terminate(lambda: processes_in(names, groups), grace=0.0)
    for name in set(names) & set(list_namespaces()):
        delete_namespace(name)
    for name in names:
        _remove_group(groups, name)
    if left:
        raise NoTestbed(f"processes of a testbed do not exit: {', '.join(map(str, sorted(left)))}")


def _remove_group(groups: Groups | None, name: str) -> None:
    """Remove a group; terminate processes that entered it meanwhile."""
    deadline = time.monotonic() + KILL_GRACE
    while groups is not None and not groups.remove(name):
        if time.monotonic() > deadline:
            raise NoTestbed(f"the control group {groups.root / name} cannot be removed")
        terminate(lambda: processes_in([name], groups), grace=0.0)
        time.sleep(POLL)


def _names(groups: Groups | None) -> list[str]:
    return sorted({*list_namespaces(), *(groups.names() if groups else [])})


def _groups() -> Groups | None:
    try:
        return find_groups()
    except NoTestbed:
        return None
