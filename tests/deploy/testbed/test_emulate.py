"""The Flower app over shaped links: uploads take what the model says, and nothing is left."""

import os

import pytest

from fedcell.deploy.testbed import cleanup as leftovers
from fedcell.deploy.testbed import emulate as emulation
from fedcell.deploy.testbed.emulate import calibrated, emulate, usual_world
from fedcell.deploy.testbed.testbed import why_not
from fedcell.errors import BadInput
from fedcell.learning import prepare_training
from fedcell.simulation.folder.ledger_file import read_ledgers

pytestmark = [pytest.mark.flower, pytest.mark.slow]
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")
REASON = why_not()
real = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def names():
    """Namespaces and control groups of this process's testbeds."""
    mine = f"fedcell-{os.getpid()}-"
    return [name for name in leftovers._names(leftovers._groups()) if mine in name]


@real
def test_uploads_take_what_the_model_says_and_the_machine_is_as_before(tmp_path):
    assert names() == []
    world = usual_world(2, 1.5e7).using(plan={"local_steps": 20})
    told, held = [], []
    report = emulate(
        world,
        tmp_path / "bed",
        rounds=2,
        seed=1,
        message=told.append,
        pause=lambda: held.append(len(names())),
    )
    assert names() == []
    assert max(held) >= 3  # a server and two devices, while it ran
    assert {(u.round, u.client) for u in report.uploads} == {(t, j) for t in (1, 2) for j in (0, 1)}
    assert report.bits == pytest.approx(8 * 1.2e6, rel=0.01)
    rates = {(u.round, u.client): u.rate for u in report.uploads}
    assert len(set(rates.values())) == 4  # fading gives each round its own
    for upload in report.uploads:
        assert upload.modelled == pytest.approx(report.bits / upload.rate)  # (6)
        assert 8 * upload.bytes / upload.link == pytest.approx(upload.rate, rel=0.1)
        assert abs(upload.error) < 0.1
        assert upload.bytes == pytest.approx(report.bits / 8 * 1514 / 1448, rel=0.05)
        assert upload.flower > 0.9 * upload.link
    run = read_ledgers(tmp_path / "bed" / "run")["distributed"]
    assert run["received"].tolist() == [2, 2]
    assert any("each in its own network" in words for words in told)
    with pytest.raises(BadInput, match="exists already"):
        emulate(world, tmp_path / "bed")


def test_a_calibrated_scenario_takes_as_long_as_this_machine(monkeypatch):
    """A whole processor, of `full` cycles a second, trains in the time that was measured: alpha_0
    times samples times steps over `full` [s]."""
    world = usual_world(2).using(plan={"local_steps": 20})
    monkeypatch.setattr(emulation, "_timed", lambda work: 0.25 if work() is None else 0.5)
    one, other = calibrated(world, 0, 1e9), calibrated(world, 0, 4e9)
    assert other.task.cycles_per_sample == pytest.approx(4 * one.task.cycles_per_sample)
    samples = prepare_training(world, 0).scenario.clients.sizes.values.max()
    work = one.local_work * float(one.step_samples(samples))
    assert work * one.task.cycles_per_sample / 1e9 == pytest.approx(0.5)
    assert one.learning == world.learning
