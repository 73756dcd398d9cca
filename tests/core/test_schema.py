"""Fields carry their meaning: help, commented files, the reference and errors read it."""

import re
import tomllib
from pathlib import Path

import pytest

from fedcell import Cell, Clients, Scenario, load_scenario, save_scenario
from fedcell.core.schema import field_infos, suggestion
from fedcell.errors import BadInput
from fedcell.scenario.load import SHIPPED
from fedcell.scenario.save import commented
from fedcell.show.tables.reference import TABLES, scenario_reference


@pytest.mark.parametrize("kind", TABLES.values(), ids=TABLES)
def test_every_key_has_a_meaning(kind):
    known = [info.name for info in field_infos(kind)]
    assert kind.__struct_fields__ == tuple(known)
    for info in field_infos(kind):
        assert len(info.doc.text) > 3, info.name
        assert re.search(rf"^ *{info.name}( = .*)?: ", kind.__doc__ or "", re.MULTILINE)
        assert str(info.doc) in (kind.__doc__ or "")
        assert info.is_table or f"| `{info.name}` |" in scenario_reference()


def test_an_error_says_what_the_key_means():
    with pytest.raises(BadInput, match=r"cell\.noise = -1.*; it is N_0, noise density \[W/Hz\]"):
        Cell(noise=-1)
    with pytest.raises(BadInput, match=r"clients\.count = 0: .*; it is N, how many there are"):
        Clients(count=0)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_commented_scenario_is_the_scenario(name, tmp_path):
    scenario = load_scenario(name)
    text = commented(scenario)
    assert all(key in tomllib.loads(text) for key in ("cell", "clients", "task", "plan"))
    save_scenario(scenario, tmp_path / "mine.toml")
    if name == "watch":  # a path in the current folder: the file in another one names it in full
        scenario = scenario.using(learning={"dataset": str(Path("watch.npz").absolute())})
    assert load_scenario(tmp_path / "mine.toml") == scenario
    assert "# K, clients per round" in text
    assert max(map(len, text.splitlines())) <= 100


def test_awkward_values_survive_a_commented_file(tmp_path):
    scenario = Scenario().using(
        cell={"distance": (20.0, 1e3), "bandwidth": 1.23456789e7, "gains": [[1e-13] * 3] * 2},
        clients={"table": {"samples": [1.5, 2.0, 3.0], "kappa": [1e-27, 2e-27, 3e-27]}},
        plan={"cohort": 2, "selection": "weighted"},
    )
    save_scenario(scenario, tmp_path / "mine.toml")
    assert load_scenario(tmp_path / "mine.toml") == scenario
    assert {file.name for file in tmp_path.iterdir()} == {"mine.toml", "mine-gains.npy"}
    other = Scenario().using(
        cell={"gains": [[2e-13] * 2] * 5}, plan={"cohort": 1}, clients={"count": 2}
    )
    save_scenario(other, tmp_path / "other.json")  # neither takes the other's gains
    assert load_scenario(tmp_path / "other.json") == other
    assert load_scenario(tmp_path / "mine.toml") == scenario
    many = Scenario().using(clients={"count": 10**6}, plan={"rounds": 10**7})
    save_scenario(many, tmp_path / "many.toml")
    assert load_scenario(tmp_path / "many.toml") == many
    with pytest.raises(BadInput, match="must end in one of: toml, json"):
        save_scenario(many, tmp_path / "many.yaml")
    odd = load_scenario("digits").using(learning={"dataset": 'a "quoted"\\ name.npz'})
    save_scenario(odd, tmp_path / "odd.toml")
    kept = load_scenario(tmp_path / "odd.toml").learning
    assert kept is not None
    assert kept.dataset.endswith('a "quoted"\\ name.npz')


def test_a_key_that_was_renamed_is_found_again():
    with pytest.raises(BadInput, match=r"plan\.drawn is not a key; did you mean plan\.cohort_draw"):
        Scenario().using(plan={"drawn": "after"})


@pytest.mark.parametrize(
    ("table", "typed", "meant"),
    [
        ("learning", "optimizer", "optimiser"),
        ("learning", "sevrer", "server"),
        ("learning", "agregation", "aggregation"),
        ("learning", "layer", "layers"),
        ("cell", "bandwith", "bandwidth"),
        ("cell", "nosie", "noise"),
        ("cell", "gian", "gains"),
        ("clients", "sample", "samples"),
        ("clients", "kapa", "kappa"),
        ("clients", "freqmin", "freq_min"),
        ("plan", "cohrt", "cohort"),
        ("plan", "epochs", "local_epochs"),
        ("task", "batchsize", "batch_size"),
    ],
)
def test_a_typing_error_gets_a_suggestion(table, typed, meant):
    with pytest.raises(BadInput, match=rf"{table}\.{typed} is not .* mean {table}\.{meant}\?$"):
        load_scenario("digits").using(**{table: {typed: 1}})


@pytest.mark.parametrize(
    ("table", "typed"),
    [
        ("learning", "quantisation"),
        ("learning", "compression"),
        ("learning", "weight_decay"),
        ("cell", "fading"),
        ("cell", "loss"),  # loss_rate or loss_kind
        ("clients", "clip"),
    ],
)
def test_an_unrelated_key_gets_no_suggestion(table, typed):
    with pytest.raises(BadInput, match=rf"{table}\.{typed} is not a key; known: "):
        load_scenario("digits").using(**{table: {typed: 1}})


def test_without_a_name_all_known_ones_are_listed():
    assert suggestion("", ["even", "optimal"]) == "known: even, optimal"
