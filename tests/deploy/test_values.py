"""Parts of a federation that need no Flower: profiles, layouts, screens, exchanges, processes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import BadFile, BadInput, Scenario, draw_fleet, prepare_training
from fedcell.deploy.device import own_frequency, profile_of
from fedcell.deploy.exchanges import (
    COLUMNS,
    EXCHANGES,
    Exchange,
    ExchangeFile,
    Outcome,
    past_exchanges,
    read_exchanges,
)
from fedcell.deploy.local.process_tree import MARK, marked
from fedcell.deploy.local.processes import Deadline, Processes, connects
from fedcell.deploy.screening import screened
from fedcell.deploy.wire.layout import Layout
from fedcell.deploy.wire.profile import NUMBERS, Profile, introduced, ordered
from fedcell.learning.aggregate import aggregate
from fedcell.network.channel import rate_per_hertz
from fedcell.network.policies.base import Broadcast

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=200),
    st.binary(max_size=20),
    st.lists(st.floats(), max_size=3),
)
KEYS = [field.name for field in fields(Profile)]


@given(st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=50)), ANYTHING))
def test_a_profile_is_one_or_is_refused_with_a_sentence(said):
    try:
        profile = Profile.of(said)
    except BadInput:
        return
    assert profile.to_dict().items() <= said.items()
    assert profile.name.isprintable()
    assert all(value > 0 for name in NUMBERS if (value := getattr(profile, name)) is not None)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "no name"),
        ({"name": "  "}, "no name"),
        ({"name": "a\x1b[2J"}, "no name"),
        ({"name": "x" * 2**20}, "more than 100 characters"),
        ({"name": "a", "root": 1}, "unknown field 'root'"),
        ({"name": "a", "kappa": -1.0}, "kappa = -1.0"),
        ({"name": "a", "kappa": float("nan")}, "kappa = nan"),
        ({"name": "a", "battery": 10**400}, "battery"),
        ({"name": "a", "power": "1"}, "power = '1'"),
        ({"name": "a", "samples": 2.5}, "samples = 2.5"),
        ({"name": "a", "samples": True}, "samples = True"),
        ({"name": "a", "client": -1}, "client = -1"),
        ({"name": "a", "gain": 1e-9, "rate": 1e6}, "both gain and rate"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(said, why):
    with pytest.raises(BadInput, match=why) as refused:
        Profile.of(said)
    assert len(str(refused.value)) < 1000


def test_devices_are_placed_as_they_say_or_else_by_name():
    named = [Profile(name=name) for name in ("c", "a", "b")]
    assert ordered(named) == [2, 0, 1]
    assert ordered([Profile(name="x", client=1), Profile(name="y", client=0)]) == [1, 0]
    with pytest.raises(BadInput, match="y does not say which client it is"):
        ordered([Profile(name="x", client=1), Profile(name="y")])


@given(st.floats(1e4, 2e7), st.one_of(st.none(), st.floats(1e-9, 1e-6)))
def test_a_rate_becomes_the_gain_with_which_it_is_the_rate(rate, power):
    scenario = Scenario().using(clients={"count": 2}, plan={"cohort": 2})
    devices = {0: Profile(name="a", rate=rate, power=power), 1: Profile(name="b")}
    table = introduced(scenario, devices).clients.table
    cell = scenario.cell
    used = scenario.clients.power if power is None else power
    gain = np.array(table.gain[0])
    assert_allclose(cell.bandwidth * rate_per_hertz(np.array(used), gain, cell.noise), rate, 1e-9)
    assert table.gain[1] is None or not np.isfinite(table.gain[1])


def test_devices_that_say_nothing_of_themselves_leave_the_scenario_as_it_is():
    scenario = Scenario().using(clients={"count": 2}, plan={"cohort": 2})
    assert introduced(scenario, {0: Profile(name="a"), 1: Profile(name="b")}) is scenario


def test_what_devices_say_of_themselves_is_the_fleet():
    scenario = Scenario().using(clients={"count": 2}, plan={"cohort": 2})
    devices = {0: Profile(name="a", kappa=7e-27), 1: Profile(name="b", freq_max=5e8)}
    fleet = draw_fleet(introduced(scenario, devices))
    assert fleet.kappa[0] == 7e-27
    assert fleet.freq_max[1] == 5e8
    with pytest.raises(BadInput, match="client 1 has not introduced itself"):
        introduced(scenario, {0: devices[0]})


def test_a_device_sets_its_frequency_by_what_it_is_told():
    told = {"mean-freq": 1e9, "mean-samples": 60.0, "step-samples": 90.0}
    bounds = {"freq-min": 1e8, "freq-max": 1.2e9}
    broadcast = Broadcast(freq=1e9, samples=60.0)
    own = broadcast.own_freq(np.array(90.0), np.array(1e8), np.array(1.2e9))
    assert own_frequency(told | bounds) == float(own) == 1.2e9  # (26), within its bounds
    assert own_frequency({"freq": 3e8} | told | bounds) == 3e8
    assert own_frequency({}) is None


def test_the_settings_of_a_node_are_what_its_device_says():
    said = profile_of({"partition-id": 3, "kappa": 5e-27, "freq-max": 1e9, "other": "x"}, 60)
    assert Profile.of(said).to_dict() == {
        "name": "client-3",
        "client": 3,
        "samples": 60,
        "kappa": 5e-27,
        "freq_max": 1e9,
        "clock": said["clock"],
    }
    with pytest.raises(BadInput, match="no name"):
        profile_of({})


def test_a_model_keeps_its_arrays_counters_and_all():
    arrays: dict[str, Any] = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "tracked": np.array(7, np.int64),
        "half": np.ones(2, np.float16),
        "none": np.empty((0, 4), np.float32),
    }
    layout = Layout.of(arrays)
    assert layout.size == 9
    assert layout.bits == 8 * (24 + 8 + 4)
    back = layout.arrays(layout.flat(arrays))
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert_array_equal(back[name], array)


def test_whole_numbers_are_rounded_when_a_mean_of_them_is_sent():
    layout = Layout.of({"n": np.array(0, np.int64)})
    assert layout.arrays(np.array([2.6], np.float32))["n"] == 3


@pytest.mark.parametrize("bad", [{}, {"w": np.array(["a"])}, {"w": np.array([None])}])
def test_a_layout_is_of_numbers(bad):
    with pytest.raises(BadInput):
        Layout.of(bad)


def updates(*lengths):
    """Uploads whose updates have these lengths, from a model of zeros."""
    return {j: np.array([x, 0, 0], np.float32) for j, x in enumerate(lengths)}


ZERO = np.zeros(3, np.float32)


def test_an_update_far_longer_than_the_median_is_shortened_or_left_out():
    sent = updates(1, 1, 1, 1000)
    assert screened(sent, ZERO, "none", 3.0) == (sent, {})
    kept, far = screened(sent, ZERO, "clip", 3.0)
    assert far == {3: 1000.0}
    assert_array_equal(kept[3], [3, 0, 0])
    assert kept[3].dtype == np.float32
    kept, far = screened(sent, ZERO, "exclude", 3.0)
    assert (sorted(kept), far) == ([0, 1, 2], {3: 1000.0})


def test_too_few_uploads_or_none_that_moves_have_no_median_to_judge_by():
    assert screened(updates(1, 1000), ZERO, "exclude", 3.0)[1] == {}
    assert screened(updates(0, 0, 0, 5), ZERO, "exclude", 3.0)[1] == {}


def test_what_is_not_finite_is_neither_a_measure_nor_measured():
    kept, far = screened(updates(1, 1, 1, np.inf, np.nan, 9), ZERO, "exclude", 3.0)
    assert far == {5: 9.0}
    assert sorted(kept) == [0, 1, 2, 3, 4]


def test_updates_beyond_what_floats_can_square_are_seen_nevertheless():
    assert screened(updates(1, 1, 1, 3e38), ZERO, "exclude", 3.0)[1].keys() == {3}


def loss_behind(screen, liars, rounds=25):
    """The loss of quadratics after some rounds in which liars send their update reversed and long,
    behind a screen."""
    scenario = Scenario().using(
        clients={"count": 8, "samples": 40.0},
        plan={"cohort": 8, "local_steps": 4},
        cell={"gain_threshold": 0.0},
        learning={"model": "quadratic-common", "rate": 0.05},
    )
    setup = prepare_training(scenario)
    learner, fleet = setup.learner(), draw_fleet(setup.scenario)
    model, shares = learner.start(), fleet.samples / fleet.samples.sum()
    for t in range(rounds):
        sent = dict(enumerate(learner.train(model, range(8), t)))
        sent |= {j: (model - 100 * (sent[j] - model)).astype(np.float32) for j in range(liars)}
        kept, _ = screened(sent, model, screen, 3.0)
        every = [kept.get(j) for j in range(8)]
        model, _ = aggregate("normalised", model, range(8), [1] * 8, every, shares, t, True)
    return learner.evaluate(model).train_loss


def test_excluding_a_liar_is_worth_more_than_clipping_it():
    with np.errstate(all="ignore"):
        honest = loss_behind("none", 0)
        for liars in (1, 2):
            exclude, clip = loss_behind("exclude", liars), loss_behind("clip", liars)
            assert exclude < clip
            assert not loss_behind("none", liars) < clip
            assert exclude < 4 * honest


PRINTABLE = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20)
LINE = st.builds(
    Exchange,
    round=st.integers(0, 9),
    client=st.one_of(st.none(), st.integers(0, 99)),
    name=PRINTABLE,
    outcome=st.sampled_from(Outcome),
    why=PRINTABLE,
    share=st.one_of(st.none(), st.floats(0, 1)),
    measured_total=st.one_of(st.none(), st.floats(0, 1e9)),
    measured_bytes_received=st.one_of(st.none(), st.integers(0, 2**40)),
)


@given(st.lists(LINE, max_size=5))
def test_exchanges_are_read_as_they_were_written(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("exchanges")
    file = ExchangeFile(folder)
    assert file.begin(0) == []
    file.add(lines)
    assert read_exchanges(folder) == lines


def some(round):
    """A line of a round."""
    return Exchange(round=round, client=1, name="pump", outcome="arrived", share=0.5)


def test_a_line_that_a_kill_has_cut_is_passed_over_and_mended(tmp_path):
    file = ExchangeFile(tmp_path)
    file.begin(0)
    file.add([some(1), some(2)])
    path = tmp_path / EXCHANGES
    path.write_bytes(path.read_bytes()[:-7])
    assert read_exchanges(tmp_path) == [some(1)]
    assert file.begin(2) == [some(1)]
    file.add([some(2)])
    assert read_exchanges(tmp_path) == [some(1), some(2)]


def test_a_run_that_is_gone_on_with_keeps_the_rounds_that_are_done(tmp_path):
    file = ExchangeFile(tmp_path)
    file.begin(0)
    file.add([some(0), some(1), some(2), some(3)])
    assert file.begin(2) == [some(0), some(1), some(2)]
    assert read_exchanges(tmp_path) == [some(0), some(1), some(2)]


@pytest.mark.parametrize("gone", [Path.unlink, lambda path: path.write_text("x\n")])
def test_a_file_of_exchanges_that_was_removed_or_changed_is_written_again(tmp_path, gone):
    file = ExchangeFile(tmp_path)
    file.begin(0)
    file.add([some(1)])
    gone(tmp_path / EXCHANGES)
    file.add([some(2)])
    assert read_exchanges(tmp_path) == [some(1), some(2)]
    shutil.rmtree(tmp_path)
    assert past_exchanges(tmp_path) == []
    file.add([some(3)])
    assert read_exchanges(tmp_path) == [some(1), some(2), some(3)]


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n", ",".join(COLUMNS) + "\n1,2\n", ",".join(COLUMNS) + "\n" + "x," * 15 + "x\n"],
)
def test_a_damaged_file_of_exchanges_is_refused_with_a_sentence(tmp_path, text):
    (tmp_path / EXCHANGES).write_text(text)
    with pytest.raises(BadFile, match="is damaged"):
        read_exchanges(tmp_path)


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = '''
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
print("up", flush=True)
time.sleep(99)
'''
with subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE) as stray:
    stray.stdout.readline()
    print("ready", flush=True)
    time.sleep(99)
"""


def test_processes_end_with_all_that_they_started_even_if_they_do_not_want_to(tmp_path):
    """One ignores the request to end; its child has left the session, too."""
    with Processes(tmp_path) as group:
        group.env["PYTHONWARNINGS"] = "ignore"
        started = group.start("stubborn", [sys.executable, "-c", STUBBORN])
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            waiting = Deadline(120.0, "starting", [started])
            while "ready" not in started.log.read_text():
                waiting.pause()
            mark = group.env[MARK]
            assert len(list(marked(mark))) == 2
            group.stop()
            assert not started.running
            assert list(marked(mark)) == []
            assert other.poll() is None  # nobody else is ended
            other.stdin.close()


def test_somebody_who_dies_is_not_waited_for(tmp_path, monkeypatch):
    with Processes(tmp_path) as group:
        started = group.start("brief", [sys.executable, "-c", "print('so long')"])
        started.handle.wait(300)
        with pytest.raises(BadInput, match="brief exited while starting: so long"):
            Deadline(9.0, "starting", [started]).pause()
        alive = group.start("alive", [sys.executable, "-c", "import time; time.sleep(99)"])
        waiting = Deadline(9.0, "starting", [alive])
        monkeypatch.setattr("fedcell.deploy.local.processes.time.monotonic", lambda: float("inf"))
        with pytest.raises(BadInput, match="starting took more than 9 s"):
            waiting.pause()
        monkeypatch.undo()
        os.kill(alive.pid, signal.SIGKILL)


def test_a_socket_that_is_connected_to_itself_has_no_answer():
    """The system may give a trial the very port that it is to try, where nothing listens yet."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        assert not connects(trial, *trial.getsockname())
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as trial:
        assert connects(trial, *server.getsockname())
