"""Remember what rounds cost, where many plans are made one after the other.

What a round costs depends on the world, the policy and the seed, and not on lost uploads, targets
and limits. So another answer to a question that is asked again and again needs few new prices.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import msgspec

from fedcell.network.policies.names import NAMED, PolicyLike
from fedcell.network.trace import MANY
from fedcell.scenario.arrays import ArrayTable, Sizes
from fedcell.scenario.scenario import Scenario

T = TypeVar("T")

FREE = {"cell": ("loss_rate", "loss_kind"), "plan": ("rounds",)}  # change no price
SURFACE = "surface"  # kind of the prices over K and E_l, which take longest
TABLES = ("cell", "clients", "task", "plan", "radio", "device")  # that prices depend on


@dataclass(frozen=True)
class Nodes:
    """How finely a surface is priced: values of K and of E_l, all where there are no more, and
    clients at each pair, in `least` rounds at least."""

    cohorts: int = 12
    lengths: int = 6
    places: int = 10_000
    least: int = 50


FULL = Nodes()
DRAFT = Nodes(cohorts=5, lengths=3, places=400, least=20)  # for a picture, not for a plan


class StoppedError(Exception):
    """The answer that prices were made for is no longer wanted."""


class UnknownSurfaceError(Exception):
    """A surface is not in the memory, and only known ones were asked for."""


class PriceMemory:
    """The last prices of rounds under built-in policies, by all values that they depend on.

    Parameters
    ----------
    most : int
        Prices that are kept; a surface over K and E_l is one of them, of a few kilobytes.
    nodes : Nodes
        How finely surfaces are priced.
    """

    def __init__(self, most: int = 128, nodes: Nodes = FULL) -> None:
        self._most = most
        self.nodes = nodes
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Any) -> Any:
        """Return a price; None where it is not known."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put(self, key: Any, price: Any, held: list[Any]) -> None:
        """Keep a price, with the objects that its key knows by their address."""
        with self._lock:
            self._kept[key] = price, held
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


_memory: ContextVar[PriceMemory | None] = ContextVar("fedcell_prices", default=None)


_is_stopped: ContextVar[Callable[[], bool] | None] = ContextVar("fedcell_stop", default=None)
_known_only: ContextVar[bool] = ContextVar("fedcell_known_only", default=False)


@contextmanager
def remembering(
    memory: PriceMemory | None = None,
    stop: Callable[[], bool] | None = None,
    known_only: bool = False,
) -> Iterator[None]:
    """Take prices from a memory, and keep new ones there, in this thread meanwhile.

    Parameters
    ----------
    memory : PriceMemory, optional
        The memory; default: the one at hand, or a new one.
    stop : callable, optional
        Whether the prices are no longer wanted; then `keep_going` raises StoppedError.
    known_only : bool
        Whether a surface that is not in the memory raises UnknownSurfaceError, instead of being
        priced.
    """
    at_hand = _memory.get() if memory is None else memory
    before = _memory.set(PriceMemory() if at_hand is None else at_hand)
    stopped = _is_stopped.set(stop or _is_stopped.get())
    only = _known_only.set(known_only or _known_only.get())
    try:
        yield
    finally:
        _known_only.reset(only)
        _is_stopped.reset(stopped)
        _memory.reset(before)


def keep_going() -> None:
    """Raise StoppedError where the prices are no longer wanted."""
    stop = _is_stopped.get()
    if stop is not None and stop():
        raise StoppedError


def nodes_at_hand() -> Nodes:
    """Return how finely surfaces are priced here."""
    memory = _memory.get()
    return FULL if memory is None else memory.nodes


def remembered(
    what: str,
    scenario: Scenario,
    policy: PolicyLike,
    others: tuple[Any, ...],
    make: Callable[[], T],
) -> T:
    """Return a price from the memory, if there is one, or make it.

    Parameters
    ----------
    what : str
        Kind of the price.
    scenario : Scenario
        World of the rounds, with its own K and E_l.
    policy : PolicyLike
        Prices under a custom policy are made each time: what it does is not known.
    others : tuple
        All other values that the price depends on, such as the seed.
    make : callable
        Returns the price.
    """
    keep_going()
    memory = _memory.get()
    known_policy = isinstance(policy, str) and policy in NAMED
    if memory is None or not known_policy or scenario.clients.count > MANY:
        return make()  # arrays of many clients would fill the memory
    held: list[Any] = []
    key = (what, policy, others, _key(scenario, held))
    known: T | None = memory.get(key)
    if known is None:
        if what == SURFACE and _known_only.get():
            raise UnknownSurfaceError
        memory.put(key, known := make(), held)
    return known


def _key(scenario: Scenario, held: list[Any]) -> tuple[Any, ...]:
    return tuple(_values(getattr(scenario, name), held, FREE.get(name, ())) for name in TABLES)


def _values(value: Any, held: list[Any], leave: tuple[str, ...] = ()) -> Any:
    """Return the values of a table. Sizes count by value; tables of clients and measured gains,
    which are large, by address, and are appended to `held`."""
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        return tuple(_values(getattr(value, n), held) for n in names if n not in leave)
    if isinstance(value, Sizes):
        return value.values.tobytes()
    if isinstance(value, ArrayTable):
        held.append(value)
        return id(value)
    return tuple(_values(item, held) for item in value) if isinstance(value, tuple) else value
