"""A federation of devices as a learner: each round is scheduled, sent, collected and recorded.

The process is the paper's (Sec. IV-C-2, IV-D, Fig. 2). Cohorts, channels and lost uploads are drawn
from the scenario's seed, as in a simulation. Under `distributed` and `equal-finish` a device gets
f-bar and D and sets its own f_j (26), and the band is split while it trains; under other policies
a_j and f_j are sent with the model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Floats, Ints
from fedcell.deploy.device import SCENARIO, learning_text
from fedcell.deploy.exchanges import MISSING, Exchange, Outcome
from fedcell.deploy.options import Config, FederationOptions, Scheduled
from fedcell.deploy.scores import aggregate_scores
from fedcell.deploy.screening import screened
from fedcell.deploy.wire.layout import Layout
from fedcell.deploy.wire.messages import Reply
from fedcell.learning.learner import Learner, Scores, measured_by
from fedcell.network.draw import draw_trace
from fedcell.network.physics.power.problem import with_fixed_powers
from fedcell.network.physics.pricing import client_energy
from fedcell.network.policies.base import Broadcast
from fedcell.network.policies.names import policy_name, resolve_policy
from fedcell.network.round import Cost, Problem, Schedule, price
from fedcell.network.simulate import pose
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Direction

from .link import Link
from .replies import Fault, measured, number_of, reported, uploads_of
from .roster import Roster
from .strategy import aggregate, cleaned

OWN_FREQ = ("distributed", "equal-finish")  # policies under which a device sets its own frequency


@dataclass
class RoundsSoFar:
    """What a federation keeps of its rounds, whichever plan they follow: a federation and all that
    `under` returns hold the same value."""

    missing: dict[int, tuple[int, ...]] = field(default_factory=dict)  # clients by round, from 0
    last_round: int = 0  # counted from 1, of the replies
    replies: list[Any] = field(default_factory=list)  # messages for a strategy
    unscored: int | None = 0  # round of the model to evaluate next; None: it was evaluated


class Federation:
    """The devices behind a link, as a learner; an upload that did not come is None."""

    def __init__(
        self,
        link: Link,
        roster: Roster,
        scenario: Scenario,
        fleet: Fleet,
        layout: Layout,
        first: Floats,
        settings: FederationOptions,
        seed: int = 0,
        judge: Learner | None = None,
        past: RoundsSoFar | None = None,
    ) -> None:
        if scenario.plan.cohort_drawn != "before-training":
            raise BadInput(
                'plan.cohort_drawn = "after-training": a federation calls its clients before they '
                'train: set it to "before-training"'
            )
        self.link, self.roster, self.layout, self.settings = link, roster, layout, settings
        self.scenario, self.fleet, self.seed = scenario, fleet, seed
        self._first, self.judge = first, judge
        self._past = RoundsSoFar() if past is None else past
        self._broadcast = Broadcast.to(scenario, fleet)
        self._policy = resolve_policy(settings.policy, self._broadcast)

    def under(self, scenario: Scenario, fleet: Fleet) -> "Federation":
        """Return the same devices and rounds with another plan, or a corrected fleet."""
        settings, about = self.settings, dict(self.settings.about)
        if SCENARIO in about:  # the ready ClientApp reads E_l from there
            about[SCENARIO] = learning_text(scenario)
            settings = replace(settings, about=about)
        return Federation(
            *(self.link, self.roster, scenario, fleet, self.layout, self._first),
            *(settings, self.seed, self.judge, self._past),
        )

    def remember(self, exchanges: Sequence[Exchange]) -> None:
        """Take up the uploads that were missing in earlier rounds of a resumed run."""
        missing = self._past.missing
        for exchange in exchanges:
            if exchange.outcome in MISSING and exchange.client is not None:
                t = exchange.round - 1
                missing[t] = (*missing.get(t, ()), exchange.client)

    @property
    def sizes(self) -> Ints:
        """D_j."""
        return np.asarray(self.fleet.samples)

    @property
    def better(self) -> Mapping[str, Direction]:
        """What devices, or the judge, measure on test data."""
        if self.judge is not None:
            return measured_by(self.judge)
        return {"accuracy": "higher", **self.settings.metrics}

    def start(self) -> Floats:
        """Return the model before the first round."""
        return self._first

    def missing(self, round: int) -> Sequence[int]:
        """Return the clients with an expected upload that did not come in a round."""
        return self._past.missing.get(round, ())

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Any]:
        """Let the cohort of a round train, with the clients that are drawn as lost, and yield the
        uploads of `clients` in order."""
        self._past.unscored = round + 1
        called, problem = self._round(round)
        self.roster.refresh(round + 1, called, self.settings.deadline)
        if problem is None:
            return iter(())
        own = policy_name(self.settings.policy) in OWN_FREQ
        schedule = None if own else self._scheduled(round, called, problem)
        orders = {
            client: (member, self._order(round, client, i, schedule))
            for i, client in enumerate(called)
            if (member := self.roster.connected(client)) is not None
        }
        layout, strategy = self.layout, self.settings.strategy
        arrays = layout.arrays(model)
        pending = self.link.send("train", arrays, orders, self.settings.deadline, strategy)
        if schedule is None:  # while they train (Sec. IV-D)
            schedule = self._scheduled(round, called, problem)
        with self.roster.asking_newcomers():
            replies = {reply.client: reply for reply in pending}
        for client, reply in replies.items():
            self.roster.note_reply(client, reply.came is not None)
        uploads, faults = uploads_of(replies, layout, clients)
        kept, far = screened(
            {j: uploads[j] for j in clients if j in uploads},
            *(model, self.settings.screen, self.settings.screen_factor),
        )
        rows = self._rows(round, called, schedule, price(problem, schedule), replies, faults, far)
        if self.settings.on_exchanges is not None:
            self.settings.on_exchanges(rows)
        self._past.missing[round] = tuple(j for j in clients if j not in kept)
        if strategy is not None:
            finite = [j for j in clients if j in kept and np.isfinite(kept[j]).all()]
            self._past.last_round = round + 1
            self._past.replies = [
                cleaned(strategy, replies[j], layout.arrays(kept[j]), self.sizes[j]) for j in finite
            ]
        return iter([kept.get(j) for j in clients])

    def _round(self, round: int) -> tuple[list[int], Problem | None]:
        """Return the cohort of a round, and the problem that it poses; None where it is empty."""
        trace = draw_trace(self.scenario, self.fleet, range(round, round + 1), self.seed)
        ((_, part),) = trace.by_size()
        called = part.cohort[0].tolist()
        return called, pose(self.scenario, self.fleet, part)[0] if called else None

    def _scheduled(self, round: int, called: Sequence[int], problem: Problem) -> Schedule:
        if self.settings.policy == "optimal-power":
            fixed = np.array([not self.roster.sets_power(client) for client in called])
            schedule = self._policy(with_fixed_powers(problem, fixed))
        else:
            schedule = self._policy(problem)
        if self.settings.on_schedule is not None:
            sent = Scheduled(round=round + 1, clients=called, schedule=schedule, problem=problem)
            self.settings.on_schedule(sent)
        return schedule

    def _order(self, round: int, client: int, place: int, schedule: Schedule | None) -> Config:
        """Return what is sent to a client with the model."""
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
            allotted = {
                "mean-freq": self._broadcast.freq,  # (25)
                "mean-samples": self._broadcast.samples,
                "step-samples": float(samples),  # of this client, as (26) counts them
                "freq-min": float(self.fleet.freq_min[client]),
                "freq-max": float(self.fleet.freq_max[client]),
            }
        else:
            allotted = {
                "share": float(schedule.share[place]),
                "freq": float(schedule.freq[place]),
            }
            if schedule.power is not None and self.roster.sets_power(client):
                allotted["power"] = float(schedule.power[place])  # p_j [W]
        return order | allotted

    def _rows(
        self,
        round: int,
        called: Sequence[int],
        schedule: Schedule,
        cost: Cost,
        replies: Mapping[int, Reply],
        faults: Mapping[int, Fault],
        far: Mapping[int, float],
    ) -> list[Exchange]:
        rows = []
        for i, client in enumerate(called):
            reply, member = replies.get(client), self.roster.connected(client)
            outcome, why = faults.get(client, Fault(Outcome.ARRIVED, ""))
            if reply is None:
                outcome, why = Outcome.ABSENT, "is not connected"
            elif client in far:
                clip = self.settings.screen == "clip"
                outcome = Outcome.CLIPPED if clip else Outcome.EXCLUDED
                why = f"its update is {far[client]:.3g} times as long as the median one"
            freq = float(schedule.freq[i])
            row = Exchange(
                round=round + 1,
                client=client,
                name=self.roster.name_of(client),
                outcome=outcome,
                why=why,
                share=float(schedule.share[i]),
                freq=number_of(reply, "freq") or freq,
                modelled_training=float(cost.compute_time[i]),
                modelled_upload=float(cost.upload_time[i]),
                modelled_energy=float(client_energy(cost)[i]),
            )
            rows.append(
                row if reply is None else measured(row, reply, member.offset if member else 0.0)
            )
            if reply is not None and reply.repeated:
                again = f"replied {reply.repeated} times more: the first reply is taken"
                rows.append(replace(row, outcome=Outcome.DUPLICATE, why=again))
        return rows

    def by_strategy(self, old: Floats, mean: Floats) -> Floats:  # noqa: ARG002
        """Return the next model as the inner strategy makes it of the replies of the last round."""
        past, new = self._past, None
        if past.replies:
            new = aggregate(self.settings.strategy, past.last_round, past.replies, self.layout)
        return old if new is None or not np.isfinite(new).all() else new

    def evaluate(self, model: Floats) -> Scores:
        """Score a model: on the server's own data, or from the reports of all devices (2)."""
        if self.judge is not None:
            return self.judge.evaluate(model)
        orders = {
            client: (member, {**self.settings.about, "client": client, "seed": self.seed})
            for client, member in self.roster.all_connected().items()
        }
        arrays = self.layout.arrays(model)
        replies = self.link.send("evaluate", arrays, orders, self.settings.deadline)
        reports = {reply.client: reported(reply, list(self.settings.metrics)) for reply in replies}
        round, self._past.unscored = self._past.unscored, None
        samples = np.asarray(self.fleet.samples)
        names = list(self.settings.metrics)
        scores = aggregate_scores(dict(sorted(reports.items())), samples, round or 0, names)
        if round is not None and self.settings.on_scores is not None:
            self.settings.on_scores([scores])  # once a round: of the model that is delivered
        return scores.counted
