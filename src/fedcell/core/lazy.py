"""Namespaces that load a module only when one of its names is asked for."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from .errors import BadInput

EXTRAS = {"flwr": "flower", "torch": "torch"}  # packages, and the extras that have them

Attached = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def attach(
    namespace: str, names: Mapping[str, Sequence[str]], namespaces: Sequence[str] = ()
) -> Attached:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose public names live elsewhere.

    Parameters
    ----------
    namespace : str
        The package, `__name__`.
    names : mapping of str to sequence of str
        Public names by the module that defines them.
    namespaces : sequence of str, optional
        Modules below the package that are public themselves.
    """
    where = {name: module for module, defined in names.items() for name in defined}
    public = sorted([*where, *namespaces])

    def load(name: str) -> Any:
        if name in where:
            try:
                value = getattr(import_module(where[name]), name)
            except ModuleNotFoundError as error:
                extra = EXTRAS.get(str(error.name).split(".")[0])
                if extra is None:
                    raise
                raise BadInput(
                    f"`{namespace}.{name}` needs a package that is not installed: pip install "
                    f"'fedcell[{extra}]'"
                ) from error
            setattr(sys.modules[namespace], name, value)
            return value
        if name in namespaces:
            return import_module(f"{namespace}.{name}")
        raise AttributeError(f"module {namespace!r} has no attribute {name!r}")

    def listed() -> list[str]:
        return public

    return load, listed, public
