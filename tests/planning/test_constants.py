"""The constants of Theorem 1, as a command."""

import pytest

from fedcell import load_scenario
from fedcell.planning.law.theory import Constants
from support.pilots import strict
from support.training import quadratics_of


def test_the_constants_of_a_scenario(fedcell, world):
    figure = world.parent / "c.png"
    words = ["world.json", "--rounds", 12, "--every", 4, "--clients", 4, "--figure", figure]
    words += ["--target-loss", 0.2]
    said = strict(fedcell("constants", *words, "--json"))
    assert said["rounds"] == [0, 4, 8, 12]
    assert len(said["lambdas"]) == 4
    assert said["lambda"]["max"] == max(said["lambdas"]) >= said["lambda"]["p90"] >= 1
    symbols = [estimate["symbol"] for estimate in said["estimates"]]
    assert symbols == ["L", "mu", "lambda", "C_1", "sigma^2", "G^2", "phi_0", "f_0"]
    assert all(e["low"] <= e["value"] <= e["high"] for e in said["estimates"])
    least = quadratics_of(load_scenario(world)).least_loss
    by_hand = Constants(**said["constants"]).law(0.2 - least).rounds(4, 4, 0.1)
    assert said["theorem_1"]["corrected"] == pytest.approx(float(by_hand))
    assert said["rounds_taken"] is None
    assert figure.stat().st_size > 10_000
    words = fedcell("constants", "world.json", "--rounds", 3)
    assert "Theorem 1 with these constants" in words.out
    assert "lambda: " in words.out
    assert "measured: more than 3" in words.out


def test_constants_need_a_learning_table(fedcell):
    answer = fedcell("constants", "paper")
    assert answer.code == 2
    assert "the scenario has no [learning]" in answer.err
