"""Scenarios and their arrays print in a few lines, never as whole arrays."""

import numpy as np

from fedcell import ClientTable, Gains, Scenario, load_scenario
from fedcell.scenario.arrays import Sizes
from fedcell.scenario.load import SHIPPED


def test_gains_and_sizes_say_shape_and_range():
    gains = Gains(np.linspace(1e-14, 1e-12, 3000).reshape(1000, 3))
    assert repr(gains) == "<Gains, 1000 rounds of 3 clients: power gain 1e-14 to 1e-12 (linear)>"
    assert repr(Sizes([120, 300])) == "<Sizes, 2 clients: 120 to 300 samples>"


def test_a_table_of_clients_says_its_columns():
    table = ClientTable(name=["pump", "gate"], samples=[120, 300], loss_rate=[None, 0.2])
    assert repr(table) == (
        "<ClientTable, 2 clients: names (pump, gate), samples 120 to 300, "
        "loss_rate 0.2 (1 left out)>"
    )


def test_a_full_table_of_clients_is_short():
    columns = ["samples", "kappa", "power", "distance", "freq_min", "freq_max"]
    columns += ["cycles_per_sample", "battery"]
    table = ClientTable(
        name=[f"a device with a long name, {j}" for j in range(2000)],
        **{name: np.linspace(1.0, 2.0, 2000) for name in columns},
        labels={f"label {i}": ("x",) * 2000 for i in range(30)},
    )
    assert len(repr(table)) < 600
    assert len(repr(table).splitlines()) <= 5
    assert "power 1 to 2 W/Hz" in repr(table)


def test_a_scenario_says_what_matters():
    assert repr(Scenario()) == (
        "<Scenario, 100 clients: K = 10 a round, E_l = 20 local steps, 50 rounds,\n"
        "  band 2e+07 Hz, loss rate 0,\n"
        "  upload 3e+04 bit, 5e+05 cycle/sample, energy_weight 1 s/J,\n"
        "  nothing is trained>"
    )
    for name in SHIPPED:
        assert len(repr(load_scenario(name)).splitlines()) <= 5
    assert "on digits, training loss 0.2>" in repr(load_scenario("digits"))
    measured = Scenario().using(
        cell={"gains": np.full((300, 2), 1e-13)},
        clients={"table": {"samples": [1, 2]}},
        plan={"cohort": 1, "local_epochs": 3},
    )
    assert "2 clients of a table: K = 1 a round, 3 local epochs, 300 rounds" in repr(measured)
    assert "<Gains, 300 rounds of 2 clients" in repr(measured)
