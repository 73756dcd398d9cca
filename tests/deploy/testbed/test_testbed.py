"""Testbeds as they are made: rates of links, shares of processors, and that nothing is left.

The transfers are those of benchmarks/testbed_links.py, between namespaces of their own.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fedcell.core.errors import NoTestbed
from fedcell.deploy.testbed import cgroups as processor
from fedcell.deploy.testbed import cleanup as leftovers
from fedcell.deploy.testbed import links, names, testbed
from fedcell.deploy.testbed import names as processes
from fedcell.deploy.testbed.testbed import why_not
from fedcell.errors import BadInput
from testbed_links import RECEIVE, SEND, python, transfer

pytestmark = pytest.mark.slow
REASON = why_not()
real = pytest.mark.skipif(REASON is not None, reason=str(REASON))
SLEEP = python("import time; time.sleep(300)")
# Ignores SIGTERM, but for a word in its log, and has a child in its own session that does so, too.
# Both exit when the log has the word "exit", which only a test writes.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
if len(sys.argv) == 3:
    subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], start_new_session=True)
else:
    print("ready", flush=True)
end = time.monotonic() + 300
while time.monotonic() < end and "exit" not in open(sys.argv[1]).read():
    time.sleep(0.05)
"""


def stubborn(log):
    """The command of a stubborn process that prints to this log."""
    return python(STUBBORN, log, STUBBORN)


def left_by(pid):
    """The names of namespaces and control groups that a process made. Not all of the machine's:
    others may be at work."""
    return [name for name in leftovers._names(leftovers._groups()) if f"fedcell-{pid}-" in name]


def lives(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def until(done, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def said(log, text="ready"):
    until(lambda: log.exists() and text in log.read_text())
    return log.read_text()


@pytest.fixture(autouse=True)
def nothing_left():
    """Every test takes away what it made; one that fails to must not harm the next."""
    yield
    left = left_by(os.getpid())
    for token in {names.token_of(name) for name in left} - {None}:
        leftovers.remove(token)
    assert left == []


@pytest.fixture
def bed():
    with testbed.Testbed(3, grace=0.5) as made:
        yield made


def transferred(bed, rates):
    """Send for 1.5 s from each client at its rate. Repeat it where other work on the machine held
    up the receivers, so that their clocks say less than the rates."""
    for client, rate in enumerate(rates):
        bed.set_rate(client, rate)
    for _ in range(5):
        found = transfer(bed, {j: round(1.5 * rate / 8) for j, rate in enumerate(rates)})
        if [clock for clock, _ in found.values()] == pytest.approx(rates, rel=0.1):
            break
    assert [clock for clock, _ in found.values()] == pytest.approx(rates, rel=0.1)
    return list(found.values())


@real
@pytest.mark.parametrize("rate", [1e6, 20e6])
def test_a_link_has_the_rate_that_was_asked_for(bed, rate):
    ((_, upload),) = transferred(bed, [rate])
    assert upload.rate == pytest.approx(rate, rel=0.1)
    assert upload.duration == pytest.approx(1.5 * 1514 / 1448, rel=0.1)


@real
def test_clients_at_once_have_rates_of_their_own(bed):
    rates = [1e6, 3e6, 10e6]
    found = transferred(bed, rates)
    assert [upload.rate for _, upload in found] == pytest.approx(rates, rel=0.1)


@real
def test_a_rate_changes_during_an_upload(bed):
    bed.set_rate(0, 2e6)

    def meanwhile():
        time.sleep(1.0)
        bed.set_rate(0, 6e6)

    _, upload = transfer(bed, {0: 1_000_000}, meanwhile)[0]
    assert upload.burst == pytest.approx(1e6 * 1514 / 1448, rel=0.01)
    assert 1.6 < upload.duration < 3.5  # at either rate alone 4.2 s, or 1.4 s


@real
def test_the_meter_tells_windows_apart_and_forgets():
    with testbed.Testbed(40) as bed, bed.meter() as meter:  # more than a page of counters

        def send(size):
            begin = time.monotonic()
            code = "import socket, sys; s = socket.socket(type=socket.SOCK_DGRAM)\n"
            code += "for _ in range(int(sys.argv[2])): s.sendto(bytes(958), (sys.argv[1], 9))"
            assert bed.start(39, python(code, bed.address("server"), size)).wait(120) == 0
            time.sleep(0.05)  # some looks: a window that ends between two gets part of a step
            return begin, time.monotonic()

        first, second = send(20), send(50)  # packets of 1000 bytes
        assert meter.upload(39, *first).sent == pytest.approx(20_000, abs=500)
        assert meter.upload(39, *second).sent == pytest.approx(50_000, abs=500)
        assert meter.upload(38, first[0], second[1]).sent < 500
        meter.forget(second[0])
        assert meter.upload(39, *first).sent == pytest.approx(0, abs=500)
        assert meter.upload(39, *second).sent == pytest.approx(50_000, abs=500)


@real
def test_a_downlink_is_free_until_it_is_shaped_and_again_after(bed, tmp_path):
    def seconds(size):
        log = tmp_path / f"{time.monotonic()}.log"
        address = bed.address(1)
        receiver = bed.start(1, python(RECEIVE, address, 9000, 120), log=log)
        said(log)
        bed.start("server", python(SEND, address, 9000, 120, size)).wait(120)
        receiver.wait(120)
        return float(log.read_text().split()[-1])

    assert seconds(500_000) < 0.3
    bed.set_downlink(1, 4e6)
    assert seconds(500_000) == pytest.approx(1 * 1514 / 1448, rel=0.15)
    bed.set_downlink(1, None)
    assert seconds(500_000) < 0.3


@real
def test_only_the_testbed_is_reached_from_inside(bed, tmp_path):
    code = """
import socket, sys
for address in sys.argv[1:]:
    try:
        socket.create_connection((address, 9), timeout=2)
    except OSError as error:
        print(type(error).__name__, error.errno, flush=True)
print("ready", flush=True)
"""
    places = ["127.0.0.1", bed.address("server"), bed.address(1), "192.0.2.1"]
    bed.start(0, python(code, *places), log=tmp_path / "log")
    refused, unreachable = "ConnectionRefusedError 111", "OSError 101"
    assert said(tmp_path / "log").splitlines()[:-1] == [refused] * 3 + [unreachable]
    assert not [d for d in os.listdir("/sys/class/net") if d.startswith(("client", "bridge"))]


@real
def test_a_share_of_the_processor_holds_for_a_process_and_its_children(bed, tmp_path):
    if bed.why_no_quota:
        pytest.skip(bed.why_no_quota)
    code = """
import os, time
child = os.fork()
begin, before = time.monotonic(), sum(os.times()[:4])
while time.monotonic() < begin + 1.5:
    pass
if child:
    os.waitpid(child, 0)
    print((sum(os.times()[:4]) - before) / (time.monotonic() - begin), "ready", flush=True)
"""

    def run(client, share):
        """Which part of a processor two loops used, and how often they were held back."""
        log = tmp_path / f"{share}.log"
        bed.set_cpu(client, share)
        bed.start(client, python(code), log=log)
        used = float(said(log).split()[0])
        text = (bed._groups.root / bed._name(client) / "cpu.stat").read_text()
        return used, int(text.split("nr_throttled")[1].split()[0])

    quarter, held = run(0, 0.25)
    most, held_again = run(0, 0.75)  # a change
    assert quarter < 0.29  # far less where other processes are at work
    assert most < 0.85
    assert held_again >= held > 0
    assert run(1, None)[1] == 0


@real
def test_stopping_ends_all_processes_of_a_client_and_no_others(bed, tmp_path):
    other = bed.start(1, SLEEP)
    first = bed.start(0, stubborn(tmp_path / "log"), log=tmp_path / "log")
    said(tmp_path / "log")
    there = bed._groups.members(bed._name(0)) if bed._groups else {first.pid}
    assert first.pid in there
    bed.stop(0, grace=0.2)
    assert not [pid for pid in there if lives(pid)]
    assert first.returncode == -signal.SIGKILL
    assert other.poll() is None
    bed.stop()
    assert other.returncode == -signal.SIGTERM
    just_now = bed.start(2, SLEEP)
    bed.stop(2)
    assert just_now.returncode is not None


@real
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_after_an_error(error):
    started = []

    def work():
        with testbed.Testbed(2) as made:
            started.append(made.start(0, SLEEP))
            assert len(left_by(os.getpid())) == 3
            raise error

    with pytest.raises(error):
        work()
    assert left_by(os.getpid()) == []
    assert not lives(started[0].pid)


@real
@pytest.mark.parametrize("error", [NoTestbed, KeyboardInterrupt])
def test_nothing_is_left_of_a_testbed_half_made(error, monkeypatch):
    add_address = links._add_address

    def fail(namespace, device, address):
        if namespace.endswith("-1"):
            raise error("stop")
        add_address(namespace, device, address)

    monkeypatch.setattr(links, "_add_address", fail)
    with pytest.raises(error, match="stop"), testbed.Testbed(3):
        pytest.fail("it was made")


OWNER = """
import json, sys, time
from pathlib import Path
from fedcell.deploy.testbed.testbed import Testbed
with Testbed(2, grace=300.0) as made:
    made.start("server", json.loads(sys.argv[3]))
    made.start(0, json.loads(sys.argv[2]), log=Path(sys.argv[1]))
    time.sleep(600)
"""


@pytest.fixture
def owner(tmp_path):
    """Another process with a testbed, in which processes run that ignore SIGTERM."""
    path = os.pathsep.join(filter(None, sys.path))
    log = tmp_path / "log"
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, log, json.dumps(stubborn(log)), json.dumps(SLEEP)],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
        # A shell that starts the tests in the background ignores SIGINT, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        said(log)
        yield process
    finally:
        process.kill()
        process.wait()
        leftovers.remove_leftovers()


@real
def test_left_overs_of_a_process_that_was_killed_are_removed_and_no_others(owner):
    made = left_by(owner.pid)
    pids = processes.processes_in(made, leftovers._groups())
    assert (len(made), len(pids)) == (3, 3)
    assert not set(leftovers.remove_leftovers()) & set(made)  # it lives
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    with testbed.Testbed(1) as mine:
        process = mine.start(0, SLEEP)
        assert set(leftovers.remove_leftovers()) >= set(made)
        assert process.poll() is None
        assert len(left_by(os.getpid())) == 2
    assert left_by(owner.pid) == []
    assert not [pid for pid in pids if lives(pid)]


WATCHED = f"""
import sys, time
from pathlib import Path
from fedcell.deploy.local.federation import LocalFederation
from fedcell.deploy.testbed.emulate import TestbedProcesses
from fedcell.deploy.testbed.testbed import Testbed
with Testbed(2) as made:
    placed = lambda logs, env: TestbedProcesses(made, logs, env)
    with LocalFederation(Path(sys.argv[1]), start=placed) as federation:
        federation._processes.start("node", {SLEEP!r}, 0)
        federation._processes.start("superlink", {SLEEP!r})
        print("ready", flush=True)
        time.sleep(60)
"""


@real
def test_a_watcher_removes_the_testbed_of_a_federation_that_was_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WATCHED, str(tmp_path)], stdout=subprocess.PIPE
    ) as owner:
        try:
            owner.stdout.readline()
            there = lambda: processes.processes_in(left_by(owner.pid), leftovers._groups())
            until(lambda: len(there()) == 2)
            pids = there()
        finally:
            owner.kill()
    until(lambda: left_by(owner.pid) == [])
    assert not [pid for pid in pids if lives(pid)]


@real
def test_interrupts_do_not_break_off_the_removal(owner, tmp_path):
    log = tmp_path / "log"
    pids = processes.processes_in(left_by(owner.pid), leftovers._groups())
    os.kill(owner.pid, signal.SIGINT)
    said(log, "asked")  # the removal has begun, and waits for the stubborn processes
    for _ in range(3):
        os.kill(owner.pid, signal.SIGINT)
        time.sleep(0.05)
    assert owner.poll() is None
    with log.open("a") as file:
        file.write("exit\n")
    assert owner.wait(120) == -signal.SIGINT
    assert left_by(owner.pid) == []
    assert not [pid for pid in pids if lives(pid)]


@real
def test_invalid_testbed_settings_get_one_sentence(bed):
    for rate in (0, -1, float("nan"), float("inf")):
        with pytest.raises(BadInput, match="the rate of a link must be"):
            bed.set_rate(0, rate)
    with pytest.raises(BadInput, match="has no client 3: they are counted from 0"):
        bed.set_rate(3, 1e6)
    with pytest.raises(BadInput, match="a share of the processor must be"):
        bed.set_cpu(0, 0)
    with pytest.raises(BadInput, match="the command no-such-thing does not exist"):
        bed.start(0, ["no-such-thing"])
    with pytest.raises(BadInput, match="`clients` of a testbed must be 1 to 1000: 0"):
        testbed.Testbed(0)


def test_the_reason_is_given_where_a_machine_cannot_make_one(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "tc" else tool)
    assert why_not() == "a testbed needs the command tc: install iproute2"
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    assert "needs root" in str(why_not())
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "needs Linux" in str(why_not())
    with pytest.raises(NoTestbed, match="needs Linux"), testbed.Testbed(1):
        pytest.fail("it was made")


def test_names_contain_their_owner():
    mine = names.part_name(names.new_token(), 3)
    assert names.owner_lives(mine)
    assert names.token_of(mine) == mine.removesuffix("-3")
    assert not names.owner_lives(mine.replace(f"-{os.getpid()}-", "-999999999-"))
    assert names.token_of("fedcell-demo") is None
    assert names.token_of(f"x{mine}") is None


def test_control_groups_of_version_2_are_limited_where_they_have_the_controller(tmp_path):
    control = tmp_path / "cgroup.subtree_control"
    control.write_text("io memory")
    mounts = f"cgroup2 {tmp_path} cgroup2 rw,relatime 0 0\n"
    with pytest.raises(NoTestbed, match="no control groups with the controller cpu"):
        processor.find_groups(mounts)
    control.write_text("cpuset cpu io memory")
    groups = processor.find_groups(mounts)
    groups.add("some")
    for share, written in ((0.25, "2500 10000"), (0.02, "1000 50000"), (None, "max 10000")):
        groups.limit("some", share)
        assert (tmp_path / "some" / "cpu.max").read_text() == written
