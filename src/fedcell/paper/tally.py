"""Count verdicts over panels: each claim once, identities apart, with Holm's correction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .verdicts import Outcome, Verdict

LEVEL = 0.05  # of all verdicts together
HOLDS = "Holm's correction changes none of the outcomes."
SEVERITY: Sequence[Outcome] = ("held", "inconclusive", "not held")


@dataclass(frozen=True)
class Counted:
    """A verdict that stands under one panel or several, counted once."""

    verdict: Verdict  # of its panels, the one that speaks most against the claim
    regime: str
    panels: tuple[str, ...]
    corrected: float | None = None  # p by Holm, over all tests; None without a test

    @property
    def stands(self) -> bool:
        """Whether it is decided after the correction, or rests on no test."""
        return self.corrected is None or self.corrected <= LEVEL


@dataclass(frozen=True)
class Tally:
    """All verdicts of some panels, each counted once.

    Attributes
    ----------
    findings : tuple of Counted
        What the runs decide.
    identities : tuple of Counted
        What is true of the model, whatever the runs.
    repeated : int
        Verdicts that stand under another panel too.
    """

    findings: tuple[Counted, ...]
    identities: tuple[Counted, ...]
    repeated: int

    @property
    def tests(self) -> int:
        """Findings that rest on a test."""
        return sum(each.corrected is not None for each in self.findings)

    def of(self, outcome: Outcome) -> list[Counted]:
        """Return the findings with an outcome."""
        return [each for each in self.findings if each.verdict.outcome == outcome]

    @property
    def overturned(self) -> list[Counted]:
        """Decided findings that Holm's correction leaves undecided."""
        return [
            each
            for each in self.findings
            if each.verdict.outcome != "inconclusive" and not each.stands
        ]

    @property
    def by_chance(self) -> float:
        """Tests that would decide by chance at 5 % if there were no effect in any."""
        return LEVEL * self.tests

    def sentences(self) -> tuple[str, str]:
        """Return how many findings there are of each kind, and what chance and Holm's correction
        make of them."""
        total, tests = len(self.findings), self.tests
        claims = len({each.verdict.claim for each in (*self.findings, *self.identities)})
        held, against = self.of("held"), self.of("not held")
        undecided = self.of("inconclusive")
        little = sum(each.verdict.finding.note == "but small" for each in held)
        counted = (
            f"In all {claims} claims give {total} findings, and {len(self.identities)} identities, "
            f"which follow from the model and are counted apart; {self.repeated} verdicts that "
            f"stand under two panels count once. {len(held)} findings are held, {little} of them "
            f"with a small effect; {len(against)} are not, and {len(undecided)} are inconclusive."
        )
        several = len({each.regime for each in self.findings}) > 1
        lost = ", ".join(
            f"{each.verdict.claim} ({each.verdict.where}{f'; {each.regime}' if several else ''})"
            for each in self.overturned
        )
        corrected = (
            f"{tests} findings rest on a test at {100 * LEVEL:.0f} %; the other {total - tests} "
            "compare with a threshold. If there were no effects at all, about "
            f"{self.by_chance:.1g} tests would be decided by chance. "
            + (f"Holm's correction leaves undecided: {lost}." if lost else HOLDS)
        )
        return counted, corrected


def tally(by_regime: Mapping[str, Mapping[str, Iterable[Verdict]]]) -> Tally:
    """Count verdicts by regime and panel.

    Within a regime, verdicts with the same claim and place are one. Holm's correction is over all
    tests, decided or not, so that an error in any of them has a probability of 5 % at most.

    Parameters
    ----------
    by_regime : mapping
        Verdicts by regime and panel.

    Examples
    --------
    >>> from fedcell.paper.verdicts import Finding
    >>> said = Verdict(claim="x", where="y", finding=Finding("held", "", 0.03), number="")
    >>> both = tally({"paper": {"a": [said], "b": [said]}})
    >>> len(both.findings), both.repeated, both.overturned
    (1, 1, [])
    """
    seen: dict[tuple[str, str, str], list[tuple[str, Verdict]]] = {}
    for regime, panels in by_regime.items():
        for panel, verdicts in panels.items():
            for verdict in verdicts:
                key = (regime, verdict.claim, verdict.where)
                seen.setdefault(key, []).append((panel, verdict))
    once = [
        Counted(
            max((v for _, v in each), key=lambda v: SEVERITY.index(v.outcome)),
            regime,
            tuple(panel for panel, _ in each),
        )
        for (regime, *_), each in seen.items()
    ]
    findings = [each for each in once if not each.verdict.identity]
    corrected = holm([each.verdict.finding.p for each in findings])
    return Tally(
        findings=tuple(
            replace(each, corrected=p) for each, p in zip(findings, corrected, strict=True)
        ),
        identities=tuple(each for each in once if each.verdict.identity),
        repeated=sum(len(each.panels) - 1 for each in once),
    )


def holm(levels: Sequence[float | None]) -> list[float | None]:
    """Return levels corrected by Holm's method, in the given order; None stays.

    Examples
    --------
    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    tested = [place for place, p in enumerate(levels) if p is not None]
    tested.sort(key=lambda place: levels[place] or 0.0)
    corrected: list[float | None] = [None] * len(levels)
    least = 0.0
    for rank, place in enumerate(tested):
        least = min(1.0, max(least, (len(tested) - rank) * (levels[place] or 0.0)))
        corrected[place] = least
    return corrected
