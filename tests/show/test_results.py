"""Results show themselves: every kind has its table and its figure, and says what it is."""

import inspect
import pkgutil
import re
import sys
from importlib import import_module

import pytest

import fedcell
from fedcell import BadInput, Scenario, compare, simulate_network
from fedcell.core.showing import Showable
from fedcell.show.results import FIGURES, TABLES


def kinds_of_result():
    for module in pkgutil.walk_packages(fedcell.__path__, "fedcell."):
        if "torch" not in module.name and "__main__" not in module.name:
            import_module(module.name)
    found = Showable.__subclasses__()
    return [kind for kind in found if not inspect.isabstract(kind)]


def test_every_result_has_a_table_a_figure_and_a_repr():
    kinds = set(kinds_of_result())
    assert kinds == set(TABLES) == set(FIGURES)
    for kind in kinds:
        assert "__repr__" in vars(kind), kind
        assert kind.rows.__doc__ or Showable.rows.__doc__


def test_a_summary_is_what_the_command_prints(fedcell):
    said = fedcell("cost", "paper", "--rounds", 10, "--policy", "even", "--policy", "optimal")
    mine = compare(Scenario(), ["even", "optimal"], rounds=10).summary()
    lines = [
        [line.rstrip() for line in text.splitlines() if line.strip()] for text in (said.out, mine)
    ]
    assert lines[0][1:] == lines[1][1:]  # but for the name of the scenario
    assert lines[1][0].startswith("scenario: K = 10 of 100 clients")


def test_rows_are_tidy():
    found = compare(Scenario(), ["even", "optimal"], rounds=10)
    rows = found.rows()
    assert len(rows) == 2 * 6
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    assert rows[0]["value"] == found["even"].mean["upload_cost"].value
    with pytest.raises(KeyError):
        found["nope"]
    assert re.fullmatch(r"<Comparison over 10 rounds, .* optimal [\d.]+ s>", repr(found))


def test_without_pandas_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(BadInput, match="`to_pandas` needs pandas, which is not installed"):
        simulate_network(Scenario(), "even", 3).to_pandas()


@pytest.mark.extras
def test_rows_become_a_frame():
    pandas = pytest.importorskip("pandas")
    ledger = simulate_network(Scenario(), "even", 5)
    frame = ledger.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["energy"].tolist() == ledger.energy.tolist()
    assert frame["round"].tolist() == [1, 2, 3, 4, 5]
