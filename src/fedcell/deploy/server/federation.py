"""A federation of devices as a learner: each round is scheduled, sent, waited for and written down.

The process is the paper's (Sec. IV-C-2, IV-D, Fig. 2). Cohorts, channels and lost uploads come
from the dice of the scenario, as in a simulation. Under `distributed` and `equal-finish` a device
is told f-bar and D and sets its own f_j (26), and the band is split while it trains; under other
policies a_j and f_j are sent with the model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Floats, Ints
from fedcell.deploy.device import SCENARIO, learning_text
from fedcell.deploy.exchanges import MISSING, Exchange
from fedcell.deploy.options import Config, Scheduled, Settings
from fedcell.deploy.scores import judged
from fedcell.deploy.screening import screened
from fedcell.deploy.wire.layout import Layout
from fedcell.deploy.wire.messages import Answer
from fedcell.learning.learner import Learner, Scores
from fedcell.network.draw import draw_trace
from fedcell.network.policies.base import Broadcast
from fedcell.network.policies.names import policy_name, resolve_policy
from fedcell.network.round import Cost, Problem, Schedule, price
from fedcell.network.simulate import pose
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario

from .link import Link
from .replies import measured, number_of, reported, uploads_of
from .roster import Members
from .strategy import averaged, cleaned

OWN_FREQ = ("distributed", "equal-finish")  # policies under which a device sets its own frequency


class Federation:
    """The devices behind a link, as a learner; an upload that did not come is None."""

    def __init__(
        self,
        link: Link,
        members: Members,
        scenario: Scenario,
        fleet: Fleet,
        layout: Layout,
        first: Floats,
        settings: Settings,
        seed: int = 0,
        judge: Learner | None = None,
    ) -> None:
        if scenario.plan.cohort_drawn != "before-training":
            raise BadInput(
                'plan.cohort_drawn = "after-training": a federation calls its clients before they '
                'train: set it to "before-training"'
            )
        self.link, self.members, self.layout, self.settings = link, members, layout, settings
        self.scenario, self.fleet, self.seed = scenario, fleet, seed
        self._first, self.judge = first, judge
        self._missing: dict[int, tuple[int, ...]] = {}
        self._taken: dict[str, Any] = {}  # the answers of the last round, for a strategy
        self._unjudged = [0]  # the round whose model is evaluated next, unless it was
        self._broadcast = Broadcast.to(scenario, fleet)
        self._policy = resolve_policy(settings.policy, self._broadcast)

    def under(self, scenario: Scenario, fleet: Fleet) -> "Federation":
        """The same devices with another plan, or known better."""
        settings, about = self.settings, dict(self.settings.about)
        if SCENARIO in about:  # devices of ours read E_l from there
            about[SCENARIO] = learning_text(scenario)
            settings = replace(settings, about=about)
        other = Federation(
            *(self.link, self.members, scenario, fleet, self.layout, self._first),
            *(settings, self.seed, self.judge),
        )
        other._missing, other._taken = self._missing, self._taken
        other._unjudged = self._unjudged
        return other

    def remember(self, exchanges: Sequence[Exchange]) -> None:
        """What happened in rounds before, where a run is gone on with."""
        for exchange in exchanges:
            if exchange.outcome in MISSING and exchange.client is not None:
                t = exchange.round - 1
                self._missing[t] = (*self._missing.get(t, ()), exchange.client)

    @property
    def sizes(self) -> Ints:
        """D_j."""
        return np.asarray(self.fleet.samples)

    def start(self) -> Floats:
        """The model before the first round."""
        return self._first

    def missing(self, round: int) -> Sequence[int]:
        """Clients whose uploads were expected in a round and did not come."""
        return self._missing.get(round, ())

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Any]:
        """Lets the clients of a round train, those too whose uploads the dice lose, and gives what
        came of the ones that are asked for, in order."""
        self._unjudged[:] = [round + 1]
        called, problem = self._round(round)
        self.members.renew(round + 1, called, self.settings.deadline)
        if problem is None:
            return iter(())
        own = policy_name(self.settings.policy) in OWN_FREQ
        schedule = None if own else self._scheduled(round, called, problem)
        orders = {
            client: (member, self._order(round, client, i, schedule))
            for i, client in enumerate(called)
            if (member := self.members.of(client)) is not None
        }
        layout, strategy = self.layout, self.settings.strategy
        arrays = layout.arrays(model)
        answers = self.link.send("train", arrays, orders, self.settings.deadline, strategy)
        if schedule is None:  # while they train (Sec. IV-D)
            schedule = self._scheduled(round, called, problem)
        with self.members.asking():
            found = {answer.client: answer for answer in answers}
        for client, answer in found.items():
            self.members.heard(client, answer.came is not None)
        uploads, faults = uploads_of(found, layout, clients)
        kept, far = screened(
            {j: uploads[j] for j in clients if j in uploads},
            *(model, self.settings.screen, self.settings.screen_factor),
        )
        rows = self._rows(round, called, schedule, price(problem, schedule), found, faults, far)
        if self.settings.on_exchanges is not None:
            self.settings.on_exchanges(rows)
        self._missing[round] = tuple(j for j in clients if j not in kept)
        if strategy is not None:
            taken = [j for j in clients if j in kept and np.isfinite(kept[j]).all()]
            clean = (
                cleaned(strategy, found[j], layout.arrays(kept[j]), self.sizes[j]) for j in taken
            )
            self._taken |= {"round": round + 1, "replies": list(clean)}
        return iter([kept.get(j) for j in clients])

    def _round(self, round: int) -> tuple[list[int], Problem | None]:
        """Who is called in a round, and the problem that they pose; None where nobody is."""
        trace = draw_trace(self.scenario, self.fleet, range(round, round + 1), self.seed)
        ((_, part),) = trace.by_size()
        called = part.cohort[0].tolist()
        return called, pose(self.scenario, self.fleet, part)[0] if called else None

    def _scheduled(self, round: int, called: Sequence[int], problem: Problem) -> Schedule:
        schedule = self._policy(problem)
        if self.settings.on_schedule is not None:
            told = Scheduled(round=round + 1, clients=called, schedule=schedule, problem=problem)
            self.settings.on_schedule(told)
        return schedule

    def _order(self, round: int, client: int, place: int, schedule: Schedule | None) -> Config:
        """What a client is told with the model."""
        plan, learning = self.scenario.plan, self.scenario.learning
        order: dict[str, Any] = {
            **self.settings.about,
            "server-round": round + 1,
            "client": client,
            "seed": self.seed,
            "batch-size": self.scenario.task.batch_size,
        }
        if plan.local_epochs:
            order["local-epochs"] = plan.local_epochs
        else:
            order["local-steps"] = plan.local_steps
        if learning is not None:
            order["lr"] = learning.rate
        if schedule is None:
            samples = self.fleet.step_samples(self.scenario)[client]
            told = {
                "mean-freq": self._broadcast.freq,  # (25)
                "mean-samples": self._broadcast.samples,
                "step-samples": float(samples),  # of this client, as (26) counts them
                "freq-min": float(self.fleet.freq_min[client]),
                "freq-max": float(self.fleet.freq_max[client]),
            }
        else:
            told = {
                "share": float(schedule.share[place]),
                "freq": float(schedule.freq[place]),
            }
        return order | told

    def _rows(
        self,
        round: int,
        called: Sequence[int],
        schedule: Schedule,
        cost: Cost,
        found: Mapping[int, Answer],
        faults: Mapping[int, tuple[str, str]],
        far: Mapping[int, float],
    ) -> list[Exchange]:
        rows = []
        for i, client in enumerate(called):
            answer, member = found.get(client), self.members.of(client)
            outcome, why = faults.get(client, ("arrived", ""))
            if answer is None:
                outcome, why = "absent", "is not connected"
            elif client in far:
                outcome = "clipped" if self.settings.screen == "clip" else "excluded"
                why = f"its update is {far[client]:.3g} times as long as the median one"
            freq = float(schedule.freq[i])
            row = Exchange(
                round=round + 1,
                client=client,
                name=self.members.name_of(client),
                outcome=outcome,
                why=why,
                share=float(schedule.share[i]),
                freq=number_of(answer, "freq") or freq,
                modelled_training=float(cost.compute_time[i]),
                modelled_upload=float(cost.upload_time[i]),
                modelled_energy=float(cost.upload_energy[i] + cost.compute_energy[i]),
            )
            rows.append(
                row if answer is None else measured(row, answer, member.offset if member else 0.0)
            )
            if answer is not None and answer.repeated:
                again = f"answered {answer.repeated} times more: the first is taken"
                rows.append(replace(row, outcome="duplicate", why=again))
        return rows

    def by_strategy(self, old: Floats, mean: Floats) -> Floats:  # noqa: ARG002
        """The next model as the inner strategy makes it of the answers of the last round."""
        round, replies = self._taken["round"], self._taken["replies"]
        new = averaged(self.settings.strategy, round, replies, self.layout) if replies else None
        return old if new is None or not np.isfinite(new).all() else new

    def evaluate(self, model: Floats) -> Scores:
        """What a model is worth: by the server's own data, or by what all devices say (2)."""
        if self.judge is not None:
            return self.judge.evaluate(model)
        orders = {
            client: (member, {**self.settings.about, "client": client, "seed": self.seed})
            for client, member in self.members.everybody().items()
        }
        arrays = self.layout.arrays(model)
        answers = self.link.send("evaluate", arrays, orders, self.settings.deadline)
        reports = {answer.client: reported(answer) for answer in answers}
        round = self._unjudged.pop() if self._unjudged else None
        scores = judged(dict(sorted(reports.items())), np.asarray(self.fleet.samples), round or 0)
        if round is not None and self.settings.on_scores is not None:
            self.settings.on_scores([scores])  # of what is delivered, not of the other model
        return scores.counted
