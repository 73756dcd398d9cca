"""Selectors and policies side by side: what each takes to the target, and who is first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.files.formats import as_json, write_csv, write_text
from fedcell.core.showing import Showable
from fedcell.core.types import Array
from fedcell.network.ledger import Ledger
from fedcell.scenario.target import Target

SURE = 0.05  # probability of one wrong difference among all, at most
UNITS = {"seconds": "s", "joules": "J", "rounds": "", "accuracy": "", "train_loss": ""}
RUNS, LEAGUE = "runs.csv", "league.json"


def jain(values: Array) -> float:
    """Return Jain's index: 1 where all are equal, 1/N where one has all.

    >>> jain(np.array([2.0, 2.0])), jain(np.array([3.0, 0.0, 0.0]))
    (1.0, 0.3333333333333333)
    """
    total = float((values * values).sum())
    return float(values.sum()) ** 2 / (values.size * total) if total > 0 else math.nan


@dataclass(frozen=True, kw_only=True, eq=False)
class EntryRun:
    """One training of an entry, priced under its policy.

    Attributes
    ----------
    seed
        Random seed.
    rounds, seconds, joules
        To the target; None where it was missed, or where there is none.
    done
        Rounds that were trained, up to the limit.
    total_seconds, total_joules
        Of these rounds [s], [J].
    accuracy, train_loss
        After the last round within the limit; NaN where not known.
    jain_calls, jain_joules
        Jain's index over all clients of how often each was called, and of what each spent.
    vain_joules
        Spent on work for the selector by clients that were not called [J].
    times, values
        Simulated time at the end of each round [s], and the metric of the league after it.
    """

    seed: int
    rounds: int | None
    seconds: float | None
    joules: float | None
    done: int
    total_seconds: float
    total_joules: float
    accuracy: float
    train_loss: float
    jain_calls: float
    jain_joules: float
    vain_joules: float
    times: Array
    values: Array

    @classmethod
    def of(
        cls, seed: int, ledger: Ledger, reached: int | None, limit: Limit, column: str
    ) -> EntryRun:
        """Return the run of a ledger with training that reached the target after some rounds."""
        done = limit.rounds_of(ledger)
        until = ledger.first(done if reached is None or limit.given else reached)
        vain = until.vain_energy if until.vain_energy.size else np.zeros(1)
        seconds, joules = ledger.total_duration, ledger.total_energy
        return cls(
            seed=seed,
            rounds=reached,
            seconds=None if reached is None else float(seconds[reached - 1]),
            joules=None if reached is None else float(joules[reached - 1]),
            done=until.rounds,
            total_seconds=float(until.duration.sum()),
            total_joules=float(until.energy.sum()),
            accuracy=_last(until.accuracy),
            train_loss=_last(until.train_loss),
            jain_calls=jain(until.totals.called.astype(float)),
            jain_joules=jain(until.totals.energy),
            vain_joules=float(vain.sum()),
            times=seconds,
            values=np.asarray(ledger.column(column), float),
        )

    def value(self, measure: str) -> float:
        """Return a measure; of a run that missed the target what it took in all, a lower bound."""
        found = getattr(self, measure)
        if found is not None:
            return float(found)
        whole = {"rounds": self.done, "seconds": self.total_seconds, "joules": self.total_joules}
        return float(whole[measure])


def _last(values: Array) -> float:
    known = values[np.isfinite(values)] if values.size else values
    return float(known[-1]) if known.size else math.nan


@dataclass(frozen=True)
class Limit:
    """Time or energy after which a training counts no more."""

    seconds: float = math.inf
    joules: float = math.inf

    @property
    def given(self) -> bool:
        """Whether there is one."""
        return min(self.seconds, self.joules) < math.inf

    def rounds_of(self, ledger: Ledger) -> int:
        """Return the rounds of a ledger that end within it."""
        within = (ledger.total_duration <= self.seconds) & (ledger.total_energy <= self.joules)
        return int(within.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Entry:
    """A selector under a policy, and its runs, one for each seed."""

    select: str
    policy: str
    runs: tuple[EntryRun, ...]

    @property
    def name(self) -> str:
        """Selector and policy."""
        return f"{self.select}, {self.policy}"

    @property
    def missed(self) -> int:
        """Runs without the target."""
        return sum(run.rounds is None for run in self.runs)

    def values(self, measure: str) -> Array:
        """Return a measure of each run."""
        return np.array([run.value(measure) for run in self.runs])

    def estimate(self, measure: str) -> Estimate:
        """Return the mean of a measure over seeds, at 95 %."""
        values = self.values(measure)
        return mean_estimate(values[np.isfinite(values)]) if np.isfinite(values).any() else NONE


NONE = Estimate(math.nan)


@dataclass(frozen=True)
class Difference:
    """An entry against the first, paired over seeds.

    Attributes
    ----------
    name
        Of the entry.
    change
        Of seconds: relative, of the geometric mean. Of accuracy: difference. Its interval holds for
        all differences of the league together, at 95 % (Bonferroni).
    sure
        Whether it is more than luck, by Holm's procedure at 5 % over all differences.
    """

    name: str
    change: Estimate
    sure: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class League(Showable):
    """Selectors and policies on the same seeds. `compare_selectors` makes one.

    Attributes
    ----------
    entries
        Each selector under each policy; differences are to the first.
    seeds
        Random seeds that all entries share.
    target
        That the rounds, seconds and joules are to; None: there is none.
    limit
        Time or energy at which the accuracy is taken.
    notes
        What a reader should know.
    about
        What was asked, and versions.
    """

    entries: tuple[Entry, ...]
    seeds: tuple[int, ...]
    target: Target | None
    limit: Limit
    notes: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        """What the entries are ranked by: seconds to the target, or else accuracy, or the loss."""
        if self.target is not None and not self.limit.given:
            return "seconds"
        known = all(np.isfinite(entry.values("accuracy")).all() for entry in self.entries)
        return "accuracy" if known else "train_loss"

    @property
    def metric(self) -> str:
        """What the figure shows over time."""
        return self.target.column if self.target is not None else "train_loss"

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Each entry after the first against it, in their order."""
        first, *others = self.entries
        pairs = [self._paired(first, other) for other in others]
        p = [_p_value(pair) for pair in pairs]
        sure = holm(p, SURE)
        level = 1 - SURE / max(1, len(others))
        found = []
        for entry, pair, certain in zip(others, pairs, sure, strict=True):
            mean = mean_estimate(pair, level) if pair.size else NONE
            if self.measure == "seconds":
                value, low, high = (math.expm1(x) for x in (mean.value, mean.low, mean.high))
                mean = Estimate(value, low, high, level)
            found.append(Difference(entry.name, mean, certain))
        return tuple(found)

    def _compared(self, entry: Entry) -> Array:
        """Return the measure of each run; one that missed the target is as slow as the slowest run
        of its seed, so that short rounds that lead nowhere do not win."""
        values = entry.values(self.measure)
        if self.measure == "seconds":
            slowest = np.max([each.values("total_seconds") for each in self.entries], axis=0)
            values = np.where([run.rounds is None for run in entry.runs], slowest, values)
        return values

    def _paired(self, first: Entry, other: Entry) -> Array:
        one, two = self._compared(first), self._compared(other)
        pair = np.log(two / one) if self.measure == "seconds" else two - one
        return np.asarray(pair[np.isfinite(pair)])

    @property
    def sentence(self) -> str:
        """Who wins, by how much, and whether that is more than luck."""
        base, count = self.entries[0].name, len(self.seeds)
        if len(self.entries) == 1:
            return f"{base} is alone: name another selector or policy to compare it with"
        if count == 1:
            return "one seed says nothing about luck: give more `seeds`"
        sign = 1 if self.measure == "accuracy" else -1
        ranked = sorted(self.differences, key=lambda d: -sign * d.change.value)
        winners = [d for d in ranked if d.sure and sign * d.change.value > 0]
        several = len(self.differences)
        corrected = f", corrected for {several} comparisons" if several > 1 else ""
        compared = f"{count} seeds{corrected}"
        if winners:
            best = winners[0]
            also = [d.name for d in winners[1:]]
            others = f"; also better than it: {'; '.join(also)}" if also else ""
            return (
                f"{best.name} {self._words(best.change)} than {base} ({compared}): more than "
                f"luck{others}"
            )
        losers = [d for d in ranked if d.sure]
        if len(losers) == len(ranked):
            return f"{base} is first: all others are behind it by more than luck ({compared})"
        behind = f"; behind it by more than luck: {'; '.join(d.name for d in losers)}"
        return f"no entry is better than {base} by more than luck ({compared})" + (
            behind if losers else ""
        )

    def _words(self, change: Estimate) -> str:
        low, high = sorted((abs(change.low), abs(change.high)))
        if self.measure == "seconds":
            return (
                f"reaches {self.target} in {-100 * change.value:.0f} % less time "
                f"({100 * low:.0f} to {100 * high:.0f} %)"
            )
        what = "accuracy" if self.measure == "accuracy" else "training loss"
        more = "higher" if self.measure == "accuracy" else "lower"
        size = f"{abs(change.value):.3g} ({low:.3g} to {high:.3g})"
        return f"has a {what} {size} {more}"

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each entry and seed."""
        names = [name for name in EntryRun.__dataclass_fields__ if name not in ("times", "values")]
        return [
            {"select": entry.select, "policy": entry.policy}
            | {name: getattr(run, name) for name in names}
            for entry in self.entries
            for run in entry.runs
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as league.json holds them."""
        limit = {name: value for name, value in vars(self.limit).items() if math.isfinite(value)}
        return {
            "target": None if self.target is None else self.target.to_dict(),
            "limit": limit,
            "measure": self.measure,
            "sentence": self.sentence,
            "differences": [
                {
                    "name": d.name,
                    "change": _finite(d.change.value),
                    "low": _finite(d.change.low),
                    "high": _finite(d.change.high),
                    "sure": d.sure,
                }
                for d in self.differences
            ],
            "runs": [{k: _finite(v) for k, v in row.items()} for row in self.rows()],
            "notes": list(self.notes),
            **self.about,
        }

    def save(self, folder: Path) -> None:
        """Write runs.csv, a row for each entry and seed, and league.json."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = self.rows()
        lines = [["" if v is None else v for v in row.values()] for row in rows]
        write_csv(folder / RUNS, list(rows[0]), lines)
        write_text(folder / LEAGUE, as_json(self.to_dict()))

    def __repr__(self) -> str:
        return f"<League: {len(self.entries)} entries on {len(self.seeds)} seeds; {self.sentence}>"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _p_value(pair: Array) -> float:
    """Return the two-sided probability of Student's test that the mean is 0; NaN for one pair."""
    from scipy.special import stdtr

    if pair.size < 2:
        return math.nan
    spread = float(pair.std(ddof=1))
    if spread == 0:
        return 0.0 if pair.any() else 1.0
    t = float(pair.mean()) / (spread / math.sqrt(pair.size))
    return float(2 * stdtr(pair.size - 1, -abs(t)))


def holm(p: Sequence[float], level: float) -> list[bool]:
    """Return which hypotheses Holm's procedure rejects: from the smallest p on, p (m - rank) must
    stay below the level. NaN is never rejected.

    >>> holm([0.01, 0.04, 0.03], 0.05)
    [True, False, False]
    """
    rejected = [False] * len(p)
    order = sorted(range(len(p)), key=lambda i: math.inf if math.isnan(p[i]) else p[i])
    for rank, i in enumerate(order):
        if not p[i] * (len(p) - rank) <= level:
            break
        rejected[i] = True
    return rejected
