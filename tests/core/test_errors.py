"""Kinds of error under one base, so that a program can tell them apart."""

import pytest

from fedcell import (
    BadFile,
    BadInput,
    DataUnavailable,
    Diverged,
    FedcellError,
    GivenLaw,
    Limits,
    NoPlan,
    NotReached,
    Scenario,
    load_scenario,
    plan_training,
    prepare_training,
    run_pilot,
)

QUADRATIC = Scenario().using(
    clients={"count": 6, "samples": 20},
    plan={"cohort": 3, "local_steps": 4, "rounds": 5},
    learning={"model": "quadratic-apart", "target": 1e-6},
)


def test_all_have_one_base_and_their_faults():
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
            Scenario(), law=law, limits=Limits(deadline=1e-3), steps=(1, 3), policy="even"
        )
    with pytest.raises(NotReached):
        run_pilot(QUADRATIC, budget=1.0, steps=(1, 16))
    with pytest.raises(Diverged, match=r"every run diverged: lower learning\.rate"):
        run_pilot(QUADRATIC.using(learning={"rate": 1e9}), budget=1.0, steps=(1, 16))
    monkeypatch.setenv("FEDCELL_MIRROR", "http://127.0.0.1:9")
    monkeypatch.setenv("FEDCELL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DataUnavailable, match=r"^learning\.dataset: "):
        prepare_training(load_scenario("mnist"))
