"""Taking testbeds away: one's own at the end, and those of processes that were killed."""

import time

from fedcell.core.errors import NoTestbed
from fedcell.deploy.local.process_tree import KILL_GRACE, POLL, end

from .cgroups import Groups, find_groups
from .links import delete_namespace, list_namespaces
from .names import inside, owner_lives, token_of


def remove_leftovers() -> list[str]:
    """Takes away what is left of testbeds whose process is gone: its names. Those of processes
    that live are not touched."""
    gone = [name for name in _names(_groups()) if token_of(name) and not owner_lives(name)]
    for token in sorted({str(token_of(name)) for name in gone}):
        remove(token)
    return gone


def remove(token: str) -> None:
    """Takes away all that bears the name of a testbed: processes, namespaces with their devices,
    control groups. It asks the machine what there is, so that nothing half made is forgotten."""
    groups = _groups()
    names = [name for name in _names(groups) if token_of(name) == token]
    left = end(lambda: inside(names, groups), grace=0.0)
    for name in set(names) & set(list_namespaces()):
        delete_namespace(name)
    for name in names:
        _remove_group(groups, name)
    if left:
        raise NoTestbed(f"processes of a testbed do not end: {', '.join(map(str, sorted(left)))}")


def _remove_group(groups: Groups | None, name: str) -> None:
    """A process on its way in when the others were ended is ended here."""
    deadline = time.monotonic() + KILL_GRACE
    while groups is not None and not groups.remove(name):
        if time.monotonic() > deadline:
            raise NoTestbed(f"the control group {groups.root / name} cannot be removed")
        end(lambda: inside([name], groups), grace=0.0)
        time.sleep(POLL)


def _names(groups: Groups | None) -> list[str]:
    return sorted({*list_namespaces(), *(groups.names() if groups else [])})


def _groups() -> Groups | None:
    try:
        return find_groups()
    except NoTestbed:
        return None
