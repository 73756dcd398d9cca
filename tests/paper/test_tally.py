"""Verdicts over panels: each claim once, identities apart, levels by Holm."""

import numpy as np
import pytest

from fedcell.paper.tally import holm, tally
from fedcell.paper.verdicts import Finding, Verdict


def said(claim: str, outcome="held", p: float | None = 0.001, identity=False) -> Verdict:
    finding = Finding(outcome, "", p)
    return Verdict(claim=claim, where="all", finding=finding, number="", identity=identity)


def test_a_claim_under_two_panels_counts_once_with_the_worse_outcome():
    whole = tally({"paper": {"a": [said("x"), said("y")], "b": [said("x", "inconclusive", 0.4)]}})
    assert len(whole.findings) == 2
    assert whole.repeated == 1
    (both,) = (each for each in whole.findings if each.verdict.claim == "x")
    assert both.panels == ("a", "b")
    assert both.verdict.outcome == "inconclusive"


def test_a_claim_in_two_regimes_counts_twice():
    whole = tally({"paper": {"a": [said("x")]}, "other": {"a": [said("x", "not held")]}})
    assert [each.regime for each in whole.findings] == ["paper", "other"]
    assert (len(whole.of("held")), len(whole.of("not held")), whole.repeated) == (1, 1, 0)


def test_identities_and_thresholds_are_no_tests():
    verdicts = [said("x"), said("same", p=1e-200, identity=True), said("near", p=None)]
    whole = tally({"paper": {"a": verdicts}})
    assert (len(whole.findings), len(whole.identities), whole.tests) == (2, 1, 1)
    assert whole.by_chance == pytest.approx(0.05)
    assert whole.overturned == []


def test_a_finding_among_many_is_overturned():
    many = [said(f"n{i}", "inconclusive", 0.5) for i in range(9)]
    whole = tally({"paper": {"a": [said("weak", p=0.02), said("strong", p=0.004), *many]}})
    assert [each.verdict.claim for each in whole.overturned] == ["weak"]
    assert tally({"paper": {"a": [said("weak", p=0.02)]}}).overturned == []


def test_sentences_count_and_name_what_is_overturned():
    many = [said(f"n{i}", "inconclusive", 0.5) for i in range(9)]
    same = said("same", identity=True)
    whole = tally({"paper": {"a": [said("weak", p=0.02), same, *many], "b": [same]}})
    counted, corrected = whole.sentences()
    assert counted.startswith("In all 11 claims give 10 findings, and 1 identities")
    assert "1 verdicts that stand under two panels count once. 1 findings are held" in counted
    assert corrected.endswith("leaves undecided: weak (all).")
    assert (
        tally({"paper": {"a": [said("x")]}})
        .sentences()[1]
        .endswith("changes none of the outcomes.")
    )
    two = tally({"paper": {"a": [said("weak", p=0.02), *many]}, "other": {"a": [said("x")]}})
    assert two.sentences()[1].endswith("leaves undecided: weak (all; paper).")


def test_holm_keeps_errors_below_five_percent():
    """Twenty tests without an effect: some error in 64 % of cases uncorrected, in 5 % corrected."""
    rng = np.random.default_rng(3)
    wrong = [
        [min(ps), min(p for p in holm(ps) if p is not None)]
        for ps in rng.uniform(size=(2000, 20)).tolist()
    ]
    plain, corrected = (np.array(wrong) <= 0.05).mean(0)
    assert 0.6 < plain < 0.68
    assert 0.035 < corrected < 0.065


def test_holm_is_that_of_the_textbook():
    """Each sorted level times the number of those not below it, never falling, at most 1."""
    assert holm([0.01, 0.04, None, 0.03, 0.005]) == pytest.approx([0.03, 0.06, None, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
