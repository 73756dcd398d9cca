"""One seed, one model: in the simulator, in a simulation of Flower, and over real processes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedcell import load_run, run

pytestmark = [pytest.mark.flower, pytest.mark.slow]
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from fedcell.deploy.exchanges import read_exchanges  # noqa: E402
from fedcell.deploy.local.federation import LocalFederation  # noqa: E402
from fedcell.deploy.options import RunConfig  # noqa: E402
from fedcell.simulation.folder.ledger_file import read_ledgers  # noqa: E402
from support.federations import ENOUGH, same, world  # noqa: E402

POLICIES = ("distributed", "optimal")
WHERE = {"processes": POLICIES, "simulation": ("distributed",)}  # starting Ray takes long
COUNT, COHORT, ROUNDS, SEED = 4, 3, 2, 3


@dataclass
class Shared:
    """The runs: our own, and those of Flower by where and policy."""

    own: Path
    folders: dict[tuple[str, str], Path]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Every run of this file, once."""
    folder = tmp_path_factory.mktemp("parity")
    scenario = world(folder / "world.toml", cohort=COHORT, rounds=ROUNDS, loss=0.2)
    run(scenario, POLICIES, seed=SEED, folder=folder / "own")
    folders = {}
    for where, policies in WHERE.items():
        with LocalFederation(folder / where) as federation:
            federation.start_superlink(simulation=where == "simulation")
            if where == "processes":
                for place in range(COUNT):
                    federation.start_node({"partition-id": place, "num-partitions": COUNT})
            for policy in policies:
                folders[where, policy] = folder / where / policy
                config = RunConfig(
                    scenario=str(folder / "world.toml"),
                    folder=str(folders[where, policy]),
                    policy=policy,
                    seed=SEED,
                    deadline=90.0,
                )
                nodes = COUNT if where == "simulation" else None
                federation.wait(federation.submit(config, nodes), ENOUGH)
    return Shared(folder / "own", folders)


def test_the_model_is_the_same_bit_for_bit_wherever_it_is_trained(shared):
    own = load_run(shared.own).state.model
    for folder in shared.folders.values():
        assert same(load_run(folder).state.model, own)


def test_so_are_the_columns_of_the_ledger_that_follow_from_the_paper(shared):
    own = read_ledgers(shared.own)
    for (_, policy), folder in shared.folders.items():
        found = read_ledgers(folder)
        assert list(found) == [policy]
        for name, values in own[policy].items():
            assert_array_equal(found[policy][name], values, name)


def test_a_run_over_flower_is_read_as_any_other(shared):
    for (_, policy), folder in shared.folders.items():
        result = load_run(folder)
        assert result.complete
        assert result.state.rounds == ROUNDS
        assert list(result.ledgers) == [policy]


def test_each_client_that_was_called_has_a_line_of_both_ledgers(shared):
    for (_, policy), folder in shared.folders.items():
        ledger, exchanges = read_ledgers(folder)[policy], read_exchanges(folder)
        met = [line for line in exchanges if line.round == 0]
        assert sorted(line.name for line in met) == [f"client-{j}" for j in range(COUNT)]
        assert {line.outcome for line in met} == {"introduced"}
        for t in range(ROUNDS):
            lines: list[Any] = [line for line in exchanges if line.round == t + 1]
            assert len(lines) == len({line.client for line in lines}) == ledger["called"][t]
            assert sum(line.outcome == "arrived" for line in lines) == ledger["received"][t]
            assert {line.outcome for line in lines} <= {"arrived", "lost"}
            spent = sum(line.modelled_energy for line in lines)
            assert spent == pytest.approx(ledger["energy"][t])
            assert sum(line.share for line in lines) == pytest.approx(1)
            for line in lines:
                took = line.modelled_training + line.modelled_upload
                assert took <= 1.001 * ledger["duration"][t]
                parts = line.measured_training, line.measured_upload, line.measured_waiting
                assert min(parts) >= 0
                assert sum(parts) == pytest.approx(line.measured_total)
                assert min(line.measured_bytes_sent, line.measured_bytes_received) > 1000


def test_a_device_sets_the_frequency_itself_that_the_server_counts_with(shared):
    """(26): from f-bar and D under `distributed`; under `optimal` it gets f_j itself."""
    from fedcell.learning import prepare_training
    from fedcell.network import draw_fleet, draw_trace
    from fedcell.network.policies.base import Broadcast
    from fedcell.network.policies.names import resolve_policy
    from fedcell.network.simulate import pose

    setup = prepare_training(load_run_scenario(shared), SEED)
    fleet = draw_fleet(setup.scenario, SEED)
    for (_, policy), folder in shared.folders.items():
        schedule_of = resolve_policy(policy, Broadcast.to(setup.scenario, fleet))
        for t in range(ROUNDS):
            trace = draw_trace(setup.scenario, fleet, range(t, t + 1), SEED)
            ((_, part),) = trace.by_size()
            schedule = schedule_of(pose(setup.scenario, fleet, part)[0])
            said = [line for line in read_exchanges(folder) if line.round == t + 1]
            assert [line.client for line in said] == part.cohort[0].tolist()
            assert_array_equal([line.freq for line in said], np.asarray(schedule.freq))
            assert_array_equal([line.share for line in said], np.asarray(schedule.share))


def load_run_scenario(shared):
    """The scenario of the runs."""
    from fedcell import load_scenario

    return load_scenario(shared.own.parent / "world.toml")
