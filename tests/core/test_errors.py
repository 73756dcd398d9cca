"""Kinds of error under one base, so that a program can tell them apart."""

import pickle
from collections.abc import Iterator

import pytest

from fedcell import (
    FedcellError,
    GivenLaw,
    Limits,
    Region,
    Scenario,
    load_scenario,
    plan_training,
    run_pilot,
)
from fedcell.errors import BadFile, BadInput, DataUnavailable, Diverged, NoPlan, NotReached
from fedcell.learning import prepare_training
from fedcell.learning.data.sources import PUBLISHED

QUADRATIC = Scenario().using(
    clients={"count": 6, "samples": 20},
    plan={"cohort": 3, "local_steps": 4, "rounds": 5},
    learning={"model": "quadratic-apart", "target": 1e-6},
)


def test_errors_share_a_base_and_keep_their_faults():
    for kind in (BadInput, BadFile, DataUnavailable, NoPlan, NotReached, Diverged):
        error = kind("this", "that")
        assert isinstance(error, FedcellError)
        assert error.faults == ("this", "that")
        assert str(error) == "this\nthat"
    assert issubclass(BadFile, BadInput)
    assert issubclass(BadInput, ValueError)
    for kind in (DataUnavailable, NoPlan, NotReached, Diverged):
        assert not issubclass(kind, BadInput)


def test_each_kind_is_raised_where_it_belongs(tmp_path, monkeypatch):
    with pytest.raises(BadFile):
        load_scenario(tmp_path / "none.toml")
    law = GivenLaw(mixing=30, drift=0.5, start=40)
    with pytest.raises(NoPlan):
        plan_training(
            Scenario(),
            law,
            limits=Limits(deadline=1e-3),
            region=Region(steps=(1, 3), policy="even"),
        )
    with pytest.raises(NotReached):
        run_pilot(QUADRATIC, budget=1.0, region=Region(steps=(1, 16)))
    with pytest.raises(Diverged, match=r"every run diverged: lower learning\.rate"):
        run_pilot(QUADRATIC.using(learning={"rate": 1e9}), budget=1.0, region=Region(steps=(1, 16)))
    monkeypatch.setenv("FEDCELL_MIRROR", "http://127.0.0.1:9")
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DataUnavailable, match=r"^learning\.dataset: "):
        prepare_training(load_scenario("mnist"))


def kinds(of: type[FedcellError] = FedcellError) -> Iterator[type[FedcellError]]:
    yield of
    for kind in of.__subclasses__():
        yield from kinds(kind)


@pytest.mark.parametrize("kind", dict.fromkeys(kinds()))
def test_every_kind_takes_a_place_and_survives_another_process(kind):
    error = kind("this", "that\n")
    for made in (error.within("here"), pickle.loads(pickle.dumps(error.within("here")))):
        assert type(made) is kind
        assert made.faults == ("here: this", "here: that\\n")
        assert str(made) == "here: this\nhere: that\\n"


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_a_damaged_published_file_is_one_sentence(tmp_path, monkeypatch, name):
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = PUBLISHED[name]
    path = tmp_path / source.folders[0] / next(iter(source.contents))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"not what was published")
    scenario = load_scenario("mnist").using(learning={"dataset": name, "model": "mlp"})
    with pytest.raises(BadFile, match=r"^learning\.dataset: .*: is not the published file") as told:
        prepare_training(scenario)
    assert len(told.value.faults) == 1
    assert type(pickle.loads(pickle.dumps(told.value))) is type(told.value)
