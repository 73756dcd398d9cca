"""Plan, simulate and run federated learning over wireless networks.

What most people need is found here (`fedcell.api` lists it); the rest by package, each of which
says what it holds: core, scenario, network, learning, simulation, experiments, planning, paper,
show, cli.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedcell.core.version import __version__ as __version__

if TYPE_CHECKING:
    from fedcell.api import *  # noqa: F403
    from fedcell.api import __all__ as __all__


def __getattr__(name: str) -> Any:
    """Loads the rest when something of it is asked for: until then a command can be stopped
    cleanly, and asked for its version at once."""
    if name == "__all__" or not name.startswith("_"):
        api = import_module("fedcell.api")
        if name == "__all__" or name in api.__all__:
            return getattr(api, name)
        if name in globals():  # a package that came along
            return globals()[name]
    raise AttributeError(f"module 'fedcell' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *import_module("fedcell.api").__all__]
