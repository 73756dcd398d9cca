"""Devices that fail, lie or vanish, and a server that dies: the run continues and records it."""

import os
import signal
from pathlib import Path

import pytest

from fedcell import load_run, load_scenario
from fedcell.errors import BadInput

pytestmark = [pytest.mark.flower, pytest.mark.slow]
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from fedcell.deploy.exchanges import read_exchanges  # noqa: E402
from fedcell.deploy.local.federation import LocalFederation  # noqa: E402
from fedcell.deploy.options import RunConfig  # noqa: E402
from fedcell.simulation.folder.ledger_file import read_ledgers  # noqa: E402
from support.faulty import HUGE  # noqa: E402
from support.federations import (  # noqa: E402
    ENOUGH,
    Fleet,
    by_hand,
    named,
    rounds_done,
    same,
    without,
    world,
)

MARRED, VANISHED = range(2)  # runs, by their seeds
# Of each device, in the runs one after the other; see support/faulty.py.
FAULTS = {
    1: "raise shape names terabyte pickle | late",
    2: "nan dtype packed none two | hang",
    3: "flat endian claims huge ok | ok",
}
STRANGERS = {  # devices that cannot be any of the four, and why not
    "kappa": "kappa = -1.0: expected a number above 0",
    "control": "it has no name that can be shown",
    "unknown": "unknown field 'root' in the device profile",
    "long": "its name has more than",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Four devices, three of them faulty."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "marks").mkdir()
    world(folder / "world.toml")
    with LocalFederation(folder / "federation") as federation:
        federation.start_superlink()
        fleet = Fleet(federation, folder / "marks")
        for place in range(4):
            fleet.node(place, fault=FAULTS.get(place, ""))
        yield fleet


def config_of(fleet, seed, rounds=1, **more):
    """A run of the fleet."""
    folder = fleet.home.folder.parent
    known = {"deadline": 90.0, **more}
    place = str(folder / f"run-{seed}")
    return RunConfig(
        scenario=str(folder / "world.toml"), folder=place, seed=seed, rounds=rounds, **known
    )


def scenario_of(fleet):
    """Their world."""
    return load_scenario(fleet.home.folder.parent / "world.toml")


def outcomes(exchanges, round):
    """How the devices of a round fared."""
    return {line.client: line.outcome for line in exchanges if line.round == round}


@pytest.fixture(scope="module")
def marred(shared):
    """The run in which all sorts of things are sent, while strangers try to join."""
    nodes = [shared.node(0, f"bad-{k}", device=f"bad-{k}", profile=k) for k in STRANGERS]
    nodes.append(shared.node(1, "silent", device="silent", profile="silent"))
    nodes.append(shared.node(0, "namesake", device="client-0"))
    nodes.append(shared.node(0, "double", device="double"))
    config = config_of(shared, MARRED, rounds=5)
    exchanges = shared.run(config)
    shared.home.stop_nodes(nodes)
    return Path(config.folder), exchanges


@pytest.mark.parametrize(
    ("round", "client", "outcome", "why"),
    [
        (1, 1, "failed", "raised an error"),
        (2, 1, "malformed", "model has shape (55209,), expected (55210,)"),
        (3, 1, "malformed", "has no array model"),
        (4, 1, "malformed", "model has shape (250000000000,), expected"),
        (5, 1, "malformed", "model has shape (1,), expected"),
        (1, 2, "not finite", "holds numbers that are not finite"),
        (2, 2, "too large", "441808 bytes, and a model of this kind has 220840"),
        (3, 2, "malformed", "model is packed as 'torch.tensor'"),
        (4, 2, "malformed", "has no arrays, or several sets of them"),
        (5, 2, "malformed", "has no arrays, or several sets of them"),
        (1, 3, "malformed", "model has shape (1, 55210), expected"),
        (2, 3, "malformed", "model holds >f4, expected float32"),
        (3, 3, "arrived", ""),
        (4, 3, "too large", f"{HUGE + 128} bytes, and a model of this kind has 220840"),
        (5, 3, "arrived", ""),
        (1, 0, "arrived", ""),
        (5, 0, "arrived", ""),
    ],
)
def test_each_exchange_says_what_became_of_it(marred, round, client, outcome, why):
    _, exchanges = marred
    (line,) = [e for e in exchanges if (e.round, e.client) == (round, client) and e.share]
    assert line.outcome == outcome
    assert line.why.startswith(why)
    assert line.why.isprintable()
    assert line.name in (f"client-{client}", "double")


def test_only_what_can_be_used_is_in_the_ledger_and_in_the_model(shared, marred):
    folder, _ = marred
    ledger = read_ledgers(folder)["distributed"]
    assert ledger["called"].tolist() == [4] * 5
    assert ledger["received"].tolist() == [2, 1, 2, 1, 2]
    assert ledger["discarded_uploads"].tolist() == [1, 0, 0, 0, 0]
    gone = {1: [1, 2, 3], 2: [1, 2, 3], 3: [1, 2], 4: [1, 2, 3], 5: [1, 2]}
    expected = by_hand(scenario_of(shared), MARRED, 5, without(gone))
    assert same(load_run(folder).state.model, expected)


@pytest.mark.usefixtures("marred")
def test_nothing_that_a_device_sends_is_unpickled(shared):
    assert shared.began(1, MARRED, 5)
    assert not (shared.marks / "unpickled").exists()


def test_what_a_device_says_of_its_round_is_shown_where_it_can_be(marred):
    _, exchanges = marred
    (line,) = [e for e in exchanges if (e.round, e.client) == (3, 3)]
    assert line.freq == 123.0  # what it claims, not what it was sent
    assert line.measured_training is None  # inf cannot be


def test_devices_that_cannot_be_are_refused_and_the_others_begin(marred):
    _, exchanges = marred
    introduced = [e.name for e in exchanges if e.outcome == "introduced"]
    refused = [e for e in exchanges if e.outcome == "refused"]
    assert len(introduced) == 4
    for why in STRANGERS.values():  # a refused node may be asked again
        assert sum(e.why.startswith(why) for e in refused) >= 1
    twins = [e.why for e in refused if e.name in ("client-0", "double")]
    assert len(twins) >= 2
    known = ("called client-0", "is client 0", "came after the 4", "joined during the run")
    assert all(any(words in why for words in known) for why in twins)


def test_a_device_that_is_late_or_dies_is_left_out_and_takes_its_place_again(shared, marred):
    """The deadline is twice the slowest reply of the other run: this machine may be busy."""
    slowest = max(e.measured_total for e in marred[1] if e.outcome == "arrived")
    config = config_of(shared, VANISHED, rounds=3, deadline=2 * slowest + 5)
    status = shared.begin(config)
    shared.until(status, lambda: shared.began(2, VANISHED, 1), "the first round")
    dead = shared.home.nodes[2]
    os.killpg(dead.pid, signal.SIGKILL)
    shared.node(2, "again", fault=FAULTS[2])
    shared.until(status, lambda: rounds_done(Path(config.folder)) >= 1, "the end of round 1")
    (shared.marks / "late").touch()
    shared.home.wait(status, 2 * ENOUGH)
    exchanges = read_exchanges(Path(config.folder))
    assert outcomes(exchanges, 1) == {0: "arrived", 1: "late", 2: "late", 3: "arrived"}
    back = [e for e in exchanges if e.outcome == "introduced" and e.round > 0]
    assert [(e.client, e.name, e.why) for e in back] == [(2, "client-2", "came back")]
    gone = {}
    for t in (1, 2, 3):
        lines = [e for e in exchanges if e.round == t and e.share]
        gone[t] = [e.client for e in lines if e.outcome != "arrived"]
        assert len(lines) == 4
    assert 2 not in gone[back[0].round]
    assert gone[3] == []
    ledger = read_ledgers(Path(config.folder))["distributed"]
    assert ledger["received"].tolist() == [4 - len(gone[t]) for t in (1, 2, 3)]
    expected = by_hand(scenario_of(shared), VANISHED, 3, without(gone))
    assert same(load_run(Path(config.folder)).state.model, expected)


def test_a_run_resumes_to_the_same_bits_after_its_server_was_killed(tmp_path):
    """One device fails in the first rounds: uploads that did not arrive are remembered, too.
    tests/deploy/test_page.py kills a SuperLink."""
    scenario = world(tmp_path / "world.toml", count=3, cohort=3, loss=0.2)
    (tmp_path / "marks").mkdir()
    folder = tmp_path / "run"
    config = RunConfig(
        scenario=str(tmp_path / "world.toml"), folder=str(folder), seed=0, rounds=4, deadline=300.0
    )
    with LocalFederation(tmp_path / "federation") as federation:
        federation.start_superlink()
        fleet = Fleet(federation, tmp_path / "marks")
        for place in range(3):
            fleet.node(place, fault="" if place else "raise raise")
        killed = []

        def kill() -> None:
            if rounds_done(folder) >= 1 and not killed:
                killed.extend(named("flwr-serverapp"))
                os.kill(killed[0], signal.SIGKILL)

        with pytest.raises(BadInput, match="the ServerApp exited without writing its status"):
            federation.wait(fleet.begin(config), ENOUGH, kill)
        assert 1 <= rounds_done(folder) < 4
        fleet.run(config.using(resume=True))
    expected = by_hand(scenario, 0, 4, without({1: [0], 2: [0]}))
    assert same(load_run(folder).state.model, expected)
    ledger = read_ledgers(folder)["distributed"]
    lines = [e for e in read_exchanges(folder) if e.share]
    assert [sum(e.round == t + 1 for e in lines) for t in range(4)] == [3] * 4
    arrived = [e.round for e in lines if e.outcome == "arrived"]
    assert [arrived.count(t + 1) for t in range(4)] == ledger["received"].tolist()
    assert {e.outcome for e in lines if e.client == 0 and e.round <= 2} == {"failed"}
