"""Choose the clients of a round while a model is trained, and tell the rule what they reported.

The rounds that come out are kept as an ordinary trace, so a training is priced under any policy
afterwards, and a resumed one continues with the same choices.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Floats, Ints
from fedcell.learning.custom import unguarded
from fedcell.learning.learner import Judging, Learner
from fedcell.network.draw import draw_trace
from fedcell.network.selectors.base import kind_of, reads_policy
from fedcell.network.selectors.fold import Selection
from fedcell.network.selectors.history import Selected
from fedcell.network.selectors.names import selector_of
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario


@dataclass
class Asked:
    """Reaches clients in one round: they evaluate the model, or train before they are chosen."""

    learner: Learner
    model: Floats
    round: int
    uploads: dict[int, Floats] = field(default_factory=dict)  # of clients that have trained
    _lengths: dict[int, float] = field(default_factory=dict)

    def evaluate(self, clients: Ints) -> Array:
        """Return the mean loss of the model over the samples of each client."""
        return losses_of(self.learner, self.model, clients.tolist())[:, 0]

    def train(self, clients: Ints) -> Array:
        """Return the lengths of the updates of these clients."""
        wanted = [client for client in clients.tolist() if client not in self.uploads]
        for client, upload in zip(
            wanted, self.learner.train(self.model, wanted, self.round), strict=True
        ):
            self.uploads[client] = upload
            self._lengths[client] = length(upload, self.model)
        return np.array([self._lengths[client] for client in clients.tolist()])

    def trained(self, clients: Sequence[int]) -> Iterator[Floats | None]:
        """Yield the uploads of clients, in their order; those that have not trained do so."""
        others = [client for client in clients if client not in self.uploads]
        rest = iter(self.learner.train(self.model, others, self.round))
        for client in clients:
            yield self.uploads[client] if client in self.uploads else next(rest, None)


def losses_of(learner: Learner, model: Floats, clients: Sequence[int]) -> Array:
    """Return the mean and the root mean square of the losses of each client, (client, 2)."""
    inner = unguarded(learner)
    if not isinstance(inner, Judging):
        raise BadInput(
            f"the learner is a {type(inner).__name__}, which cannot evaluate a model on the "
            "samples of one client, and the selector reads losses: give it client_losses, or "
            "choose another selector"
        )
    return np.array(list(inner.client_losses(model, clients)), float).reshape(-1, 2)


def length(upload: Floats | None, model: Floats) -> float:
    """Return |w_j - w|; NaN for an upload that did not arrive, or is not finite."""
    if upload is None:
        return float("nan")
    change = np.asarray(upload, float) - model
    return float(np.sqrt((change * change).sum()))


@dataclass(eq=False)
class Reported:
    """Passes uploads on, and keeps what their clients report."""

    model: Floats
    clients: Sequence[int]
    norms: dict[int, float] = field(default_factory=dict)

    def passed(self, uploads: Iterable[Floats | None]) -> Iterator[Floats | None]:
        """Yield the uploads."""
        for client, upload in zip(self.clients, uploads, strict=False):
            self.norms[client] = length(upload, self.model)
            yield upload

    def added(self, selection: Selection, selected: Selected, learner: Learner) -> Selected:
        """Return the choices so far with what these clients reported."""
        there = [client for client in self.clients if np.isfinite(self.norms.get(client, np.nan))]
        who, values = np.array(there, np.int64), {}
        if {"loss", "rms_loss"} & set(selection.reads) and there:
            mean, rms = losses_of(learner, self.model, there).T
            values = {"loss": mean, "rms_loss": rms}
        if "norm" in selection.reads:
            values["norm"] = np.array([self.norms[client] for client in there])
        known = {name: v for name, v in values.items() if name in selection.reads}
        return replace(selected, history=selected.history.reported(who, **known))


def live_selection(scenario: Scenario, fleet: Fleet, seed: int, rounds: int) -> Selection | None:
    """Return the rule of a scenario if it learns; None where the rounds are known before."""
    rule = selector_of(scenario)
    if rule is None or kind_of(rule) != "learning":
        return None
    return Selection(scenario, fleet, seed, rounds)


def stand_in(selection: Selection, rounds: range) -> Trace:
    """Return uniform rounds in place of those that a rule will choose, with the same columns."""
    scenario = selection.scenario.using(plan={"selection": "uniform"})
    trace = draw_trace(scenario, selection.fleet, rounds, selection.seed)
    none = np.empty((len(rounds), 0), np.int64)
    asks = {"evaluate": "evaluated", "train": "trained"}
    columns: dict[str, Any] = {asks[name]: none for name in selection.reads if name in asks}
    return replace(trace, **columns)


def under_policy(scenario: Scenario, policies: Sequence[str]) -> Scenario:
    """Return a scenario whose rule reads durations or energies under the policy of its run; refuse
    several policies for such a rule."""
    rule = selector_of(scenario)
    if rule is None or not reads_policy(rule):
        return scenario
    text = scenario.plan.selection
    if len(policies) != 1:
        raise BadInput(
            f"plan.selection = {text!r} reads durations or energies, which depend on the policy: "
            f"one training is for one policy, and these are {', '.join(policies)}"
        )
    own = getattr(rule, "policy", None)
    if "policy=" in text.replace(" ", "") and own != policies[0]:
        raise BadInput(
            f"plan.selection = {text!r} is for the policy {own}, and the run is priced under "
            f"{policies[0]}: give both the same"
        )
    return scenario.using(plan={"selection": with_policy(text, policies[0])})


def with_policy(text: str, policy: str) -> str:
    """Return a plan.selection with the policy that its rule reads durations of."""
    if "policy=" in text.replace(" ", ""):
        return text
    inside = f"policy={policy}"
    return f"{text[:-1]}, {inside})" if text.endswith(")") else f"{text}({inside})"
