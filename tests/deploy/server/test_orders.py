"""What is sent to devices and recorded, beside the schedule of the same round."""

from dataclasses import replace

import numpy as np
import pytest

from fedcell import Scenario, schedule_round

pytestmark = pytest.mark.flower
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell.deploy.exchanges import read_exchanges  # noqa: E402
from fedcell.deploy.flower import FederationOptions, run_federation  # noqa: E402
from support.appgrids import AppGrid, places, stepping  # noqa: E402

SAMPLES = (60, 20, 90, 10)
FIRST = np.ones(1000, np.float32)
ROUNDS = 3


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages are made inside a run of Flower's only."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture(params=["even", "distributed", "equal-finish", "optimal-staged", "optimal"])
def policy(request):
    return request.param


@pytest.fixture
def run(policy, tmp_path):
    """What was sent in a run under a policy, what was written, and the rounds as they are scheduled
    without any federation."""
    world = Scenario().using(
        clients={"count": 4, "spread": 0.5},
        plan={"cohort": 3, "local_steps": 7},
        task={"cycles_per_sample": 1e6, "samples_per_step": "dataset"},
    )
    grid = AppGrid(stepping(lambda _, w, __: 0.9 * w, SAMPLES), places(4))
    folder, settings = tmp_path / "run", FederationOptions(policy=policy, deadline=20.0)
    run_federation(
        grid,
        world,
        rounds=ROUNDS,
        seed=5,
        folder=folder,
        options=replace(settings, arrays={"w": FIRST}),
    )
    known = world.using(
        task={"model_bits": 32.0 * FIRST.size}, clients={"sizes": np.array(SAMPLES, float)}
    )
    rounds = [schedule_round(known, policy, round=t + 1, seed=5) for t in range(ROUNDS)]
    return grid.configs("train"), [e for e in read_exchanges(folder) if e.round], rounds


def test_a_device_gets_its_share_and_frequency_or_the_input_of_its_own(run, policy):
    sent, _, rounds = run
    for order in sent:
        scheduled = rounds[order["server-round"] - 1]
        place = scheduled.of.clients.index(order["client"])
        assert order["local-steps"] == 7
        if policy in ("distributed", "equal-finish"):
            assert "share" not in order
            assert "freq" not in order
            own = order["step-samples"] / order["mean-samples"] * order["mean-freq"]  # (26)
            own = min(max(own, order["freq-min"]), order["freq-max"])
            assert own == pytest.approx(scheduled.schedule.freq[place], rel=1e-12)
        else:
            assert order["share"] == scheduled.schedule.share[place]
            assert order["freq"] == scheduled.schedule.freq[place]


@pytest.mark.parametrize("policy", ["optimal-power"])
def test_powers_go_to_devices_that_can_set_them(tmp_path, policy):
    nodes = [node | ({"sets-power": True} if j < 2 else {}) for j, node in enumerate(places(4))]
    world = Scenario().using(
        clients={"count": 4, "spread": 0.5},
        plan={"cohort": 4, "local_steps": 7},
        task={"cycles_per_sample": 1e6, "samples_per_step": "dataset"},
    )
    grid = AppGrid(stepping(lambda _, w, __: 0.9 * w, SAMPLES), nodes)
    settings = FederationOptions(policy=policy, deadline=20.0)
    run_federation(
        *(grid, world),
        rounds=1,
        seed=5,
        folder=tmp_path / "run",
        options=replace(settings, arrays={"w": FIRST}),
    )
    orders = {order["client"]: order for order in grid.configs("train")}
    told = {client for client, order in orders.items() if "power" in order}
    assert told == {0, 1} & orders.keys()
    assert told < orders.keys()
    known = world.using(
        task={"model_bits": 32.0 * FIRST.size}, clients={"sizes": np.array(SAMPLES, float)}
    )
    free = schedule_round(known, policy, seed=5)
    chosen = dict(zip(free.of.clients, free.schedule.power, strict=True))
    assert told
    for client in told:
        assert orders[client]["power"] > 0
        # The others keep their density, so the best powers of these are not those of all.
        assert orders[client]["power"] != chosen[client]


def test_the_modelled_ledger_is_what_the_round_costs_without_a_federation(run):
    _, lines, rounds = run
    assert len(lines) == sum(len(scheduled.of.clients) for scheduled in rounds)
    for line in lines:
        scheduled = rounds[line.round - 1]
        place, cost = scheduled.of.clients.index(line.client), scheduled.cost
        assert line.share == scheduled.schedule.share[place]
        assert line.modelled_training == cost.compute_time[place]
        assert line.modelled_upload == cost.upload_time[place]
        assert line.modelled_energy == cost.upload_energy[place] + cost.compute_energy[place]
        assert line.measured_bytes_received >= 4 * FIRST.size
