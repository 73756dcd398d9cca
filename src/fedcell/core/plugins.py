"""Objects that other installed packages add under a name, by entry points.

A package declares them in its pyproject.toml, in a group of fedcell's::

    [project.entry-points."fedcell.policies"]
    fair = "fair_package.policies:Fair"

Groups are read only when a name is not built in, so that a plugin never replaces a built-in name
and fedcell starts no slower for it.
"""

from typing import TYPE_CHECKING, Any

from .callables import blaming
from .errors import BadInput

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def plugin_names(group: str) -> list[str]:
    """Return the names that installed packages add to a group, in alphabetical order.

    Parameters
    ----------
    group : str
        Entry-point group, such as "fedcell.policies".

    Returns
    -------
    list of str
        Names without duplicates. No plugin is imported.
    """
    return sorted({point.name for point in _entry_points(group)})


def load_plugin(group: str, name: str) -> Any:
    """Import and return the object that an installed package adds to a group.

    Parameters
    ----------
    group : str
        Entry-point group, such as "fedcell.policies".
    name : str
        Name of the entry point.

    Returns
    -------
    object
        Whatever the entry point refers to. The caller checks that it is usable.

    Raises
    ------
    BadInput
        If no package adds the name, if two packages add it, or if importing it fails.
    """
    points = {point.value: point for point in _entry_points(group) if point.name == name}
    if not points:
        names = ", ".join(plugin_names(group)) or "none"
        raise BadInput(f"no installed package adds {name!r} to {group}: installed: {names}")
    if len(points) > 1:
        packages = " and ".join(sorted(map(_package, points.values())))
        raise BadInput(f"{name!r} of {group} is in {packages}: uninstall one of them")
    ((value, point),) = points.items()
    place = f"{name} = {value!r} of {group}, in {_package(point)}, cannot be loaded"
    with blaming(place):
        return point.load()


def _entry_points(group: str) -> list["EntryPoint"]:
    from importlib.metadata import entry_points

    with blaming(f"the entry points of {group} cannot be read"):
        return list(entry_points(group=group))


def _package(point: "EntryPoint") -> str:
    """Return the name of the installed package that declares an entry point."""
    return "an unnamed package" if point.dist is None else str(point.dist.name)
