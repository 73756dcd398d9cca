"""Path loss by name against published points and a second implementation; bad channels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedcell import Clients, Scenario, load_scenario
from fedcell.errors import BadInput
from fedcell.network import Measured, draw_fleet, draw_trace
from fedcell.scenario.channel.laws import wall_loss
from fedcell.scenario.channel.spec import MODELS, ChannelSpec

FREQUENCIES = (0.9e9, 2e9, 3.5e9, 28e9)
FAR = (10.0, 50.0, 100.0, 200.0, 500.0)
OFFICE = (10.0, 50.0, 100.0, 140.0)
# Path losses [dB] at FAR (offices: OFFICE) for each of FREQUENCIES, computed once apart from this
# code, with c = 3.0e8 m/s; True: with line of sight.
POINTS: Mapping[tuple[str, bool], str] = {
    ("uma", True): "58.04 65.42 71.34 80.29 96.11 | 64.98 72.35 78.28 84.71 96.88 | "
    "69.84 77.21 83.14 89.57 98.27 | 87.90 95.27 101.20 107.63 116.33",
    ("uma", False): "67.62 80.71 91.24 102.67 118.12 | 74.55 87.65 98.18 109.60 125.06 | "
    "79.42 92.51 103.04 114.46 129.92 | 97.48 110.57 121.10 132.52 147.98",
    ("umi", True): "54.96 67.29 78.53 90.53 106.43 | 61.90 74.23 80.45 90.95 106.86 | "
    "66.76 79.09 85.31 91.61 107.11 | 84.82 97.15 103.38 109.67 118.02",
    ("umi", False): "60.89 81.62 92.08 102.67 116.70 | 68.28 89.00 99.47 110.05 124.09 | "
    "73.46 94.18 104.64 115.23 129.26 | 92.69 113.42 123.88 134.46 148.50",
    ("rma", True): "62.48 67.35 72.40 78.35 86.82 | 69.42 74.29 79.34 85.29 93.75 | "
    "74.28 79.15 84.20 90.15 98.61 | 92.34 97.21 102.26 108.21 116.67",
    ("rma", False): "62.48 71.47 80.88 91.85 107.03 | 69.42 78.40 87.81 98.78 113.96 | "
    "74.28 83.26 92.67 103.64 118.82 | 92.34 101.32 110.74 121.71 136.88",
    ("inh-open", True): "48.93 60.88 66.09 68.61 | 55.87 67.82 73.02 75.55 | "
    "60.73 72.68 77.88 80.41 | 78.79 90.74 95.94 98.47",
    ("inh-mixed", False): "54.79 81.24 92.76 98.36 | 63.42 89.88 101.40 106.99 | "
    "69.47 95.93 107.45 113.05 | 91.96 118.42 129.94 135.53",
    ("inf-sl", True): "52.47 67.50 73.97 80.44 89.00 | 59.06 74.09 80.56 87.03 95.59 | "
    "63.68 78.71 85.18 91.65 100.21 | 80.84 95.86 102.34 108.81 117.36",
    ("inf-sl", False): "57.58 75.41 83.08 90.76 100.91 | 64.52 82.34 90.02 97.70 107.84 | "
    "69.38 87.21 94.88 102.56 112.71 | 87.44 105.27 112.94 120.62 130.77",
    ("inf-dl", False): "57.58 78.34 89.08 99.83 114.04 | 64.52 85.27 96.02 106.77 120.97 | "
    "69.38 90.13 100.88 111.63 125.83 | 87.44 108.20 118.94 129.69 143.90",
    ("inf-sh", False): "54.48 70.56 77.48 84.41 93.56 | 61.42 77.50 84.42 91.34 100.50 | "
    "66.28 82.36 89.28 96.21 105.36 | 84.34 100.42 107.34 114.27 123.42",
    ("inf-dh", False): "54.61 69.92 76.51 83.11 91.82 | 61.55 76.86 83.45 90.04 98.76 | "
    "66.41 81.72 88.31 94.90 103.62 | 84.47 99.78 106.37 112.97 121.68",
}
SIGHT: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {  # distances, P(LOS)
    "uma": (FAR, (1.0, 0.6494, 0.3477, 0.1280, 0.0363)),
    "umi": (FAR, (1.0, 0.5196, 0.2310, 0.0935, 0.0360)),
    "rma": (FAR, (1.0, 0.9608, 0.9139, 0.8270, 0.6126)),
    "inh-open": ((5.0, 10.0, 50.0, 100.0), (1.0, 0.9318, 0.5375, 0.4244)),
    "inh-mixed": ((5.0, 10.0, 50.0, 100.0), (0.4455, 0.2874, 0.0843, 0.0182)),
    "inf-sl": ((44.814,), (np.exp(-1),)),
    "inf-dl": ((2.183,), (np.exp(-1),)),
    "inf-sh": ((582.585,), (np.exp(-1),)),
    "inf-dh": ((3.153,), (np.exp(-1),)),
}


def found(model: str, distance: Any, **keys: Any) -> Any:
    return ChannelSpec(model=model, **keys).propagation(np.asarray(distance, float))


@pytest.mark.parametrize(("model", "in_sight"), POINTS)
def test_path_losses_are_those_published(model, in_sight):
    away = np.array(OFFICE if model.startswith("inh") else FAR)
    if model.startswith("inf"):  # whose points are at distances through the air
        away = np.sqrt(away**2 - (6.5**2 if model[-1] == "h" else 0.0))
    for carrier, line in zip(FREQUENCIES, POINTS[model, in_sight].split("|"), strict=True):
        said = found(model, away, carrier=carrier)
        loss = said.los if in_sight else said.nlos
        assert_allclose(loss, [float(x) for x in line.split()], atol=0.01)


@pytest.mark.parametrize("model", SIGHT)
def test_the_chance_of_sight_is_that_published(model):
    away, chance = SIGHT[model]
    assert_allclose(found(model, away).los_probability, chance, atol=1e-4)


def test_free_space_and_lte_are_those_published():
    free = found("free-space", FAR, carrier=3.5e9).los
    assert_allclose(free, [63.33, 77.31, 83.33, 89.35, 97.31], atol=0.01)
    lte = found("lte-macro", FAR[1:], carrier=2e9).los
    assert_allclose(lte, [79.18, 90.50, 101.82, 116.78], atol=0.06)  # of 128.1, not 128.15
    assert float(found("lte-macro", 1e3, carrier=0.9e9).los) == pytest.approx(120.9, abs=0.05)


def test_walls_are_those_published():
    for building, losses in (
        ("low", (10.56, 11.83, 12.70, 17.83)),
        ("high", (18.63, 22.71, 27.50, 35.03)),
    ):
        assert_allclose([wall_loss(building, f) for f in FREQUENCIES], losses, atol=0.01)


@pytest.mark.extras
@pytest.mark.parametrize("in_sight", [True, False])
@pytest.mark.parametrize("model", ["uma", "umi", "rma", "inh-open"])
def test_a_second_implementation_agrees(model, in_sight):
    """The package CRRM, at 200 points."""
    crrm = pytest.importorskip("CRRM")
    from importlib import import_module

    module, name = {
        "uma": ("UMa_pathloss_model_06", "UMa_pathloss"),
        "umi": ("UMi_pathloss_model_00", "UMi_pathloss"),
        "rma": ("RMa_pathloss_model_08", "RMa_pathloss"),
        "inh-open": ("InH_pathloss_model_01", "InH_pathloss"),
    }[model]
    rng = np.random.default_rng(5)
    away = rng.uniform(10, 140 if model.startswith("inh") else 4000, 40)
    station, device = {"uma": (25, 1.5), "umi": (10, 1.5), "rma": (35, 1.5)}.get(model, (3, 1.0))
    stand = np.column_stack([away, np.zeros(40), np.full(40, device)])
    mast = np.array([[0.0, 0.0, station]])
    through_air = np.hypot(away, station - device)
    for carrier in (0.7, 2.1, 3.5, 6.0, 26.0):
        law = getattr(import_module(f"{crrm.__name__}.{module}"), name)(
            fc_GHz=carrier, LOS=in_sight
        )
        theirs = law.get_pathloss_dB(away[:, None], through_air[:, None], stand, mast)[:, 0]
        ours = found(model, away, carrier=carrier * 1e9)
        assert_allclose(ours.los if in_sight else ours.nlos, theirs, atol=1e-9)


def test_losses_grow_with_distance_and_obstacles():
    for model in MODELS[1:]:
        carrier = 2e9 if model == "lte-macro" else 3.5e9
        said = found(model, np.linspace(40, 150, 50), carrier=carrier)
        assert (np.diff(said.los) > 0).all()
        assert (said.obstructed >= said.los).all()


BAD: Mapping[str, tuple[dict[str, Any], str]] = {
    "near": ({"distance": 5.0, "channel": {"model": "uma"}}, "holds for 10 to 5000 m, and a cl"),
    "far": ({"distance": [20.0, 160.0], "channel": {"model": "inh-open"}}, "holds for 1 to 150 m"),
    "lte": ({"channel": {"model": "lte-macro"}}, "carrier = 3.5e.09: .lte-macro. holds for 0.8"),
    "height": ({"channel": {"model": "uma", "device_height": 20.0}}, "holds for 1.5 to 13 m"),
    "low mast": ({"channel": {"model": "umi", "station_height": 1.0}}, "expected above the dev"),
    "mast": ({"channel": {"model": "rma", "station_height": 500.0}}, "holds for 10 to 150 m"),
    "roofs": ({"channel": {"model": "rma", "building_height": 80.0}}, "holds for 5 to 50 m"),
    "street": ({"channel": {"model": "rma", "street_width": 1.0}}, "street_width = 1: .rma. holds"),
    "name": ({"channel": {"model": "urban"}}, "known: paper, uma, umi"),
    "typo": ({"channel": {"model": "inf-s1"}}, 'model = "inf-s1": did you mean'),
    "order": ({"channel": {"diversity": "all"}}, 'diversity = "all": expected a number, or "auto"'),
    "low order": ({"channel": {"diversity": 0.5}}, "expected 1 to 1e6"),
    "unused": ({"channel": {"street_width": 30.0}}, "street_width is for rma"),
    "no fading": ({"channel": {"fading": "none", "diversity": 4.0}}, "diversity is for gamma"),
    "rician": ({"channel": {"fading": "rician"}}, "rician_db is missing"),
    "paper": ({"reference_gain": 1e-3, "channel": {"model": "umi"}}, "for the paper's law"),
    "share": ({"channel": {"indoor_share": 1.5}}, "indoor_share = 1.5: expected a number from 0"),
    "both": ({"gains": [[1e-9] * 100], "channel": {"model": "umi"}}, "leave one of them out"),
    "clutter": (
        {"channel": {"model": "inf-sh", "clutter_height": 9.0}},
        "clutter_height = 9: expected between the devices at 1.5 m and the station at 8 m",
    ),
    "measured": (
        {"channel": {"measured": Measured("rate", [[1e6] * 100]), "fading": "none"}},
        "fading has no effect on measured channels",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_channels_that_cannot_be_are_refused(case):
    cell, sentence = BAD[case]
    with pytest.raises(BadInput, match=sentence):
        Scenario().using(cell=cell)


def test_a_gain_above_one_names_the_keys_of_its_law():
    world = Scenario().using(cell={"channel": {"model": "free-space", "carrier": 3.5}})
    with pytest.raises(BadInput, match=r"check cell\.distance and cell\.channel, whose carrier"):
        draw_fleet(world)
    with pytest.raises(
        BadInput, match=r"check cell\.distance, cell\.reference_gain and cell\.path_loss_exponent"
    ):
        draw_fleet(Scenario().using(cell={"reference_gain": 1e20}))


def test_diversity_and_motion_need_what_a_model_lacks():
    world = Scenario().using(cell={"channel": {"diversity": "auto"}})
    with pytest.raises(BadInput, match=r"sets no delay spread: give cell\.channel\.delay_spread"):
        draw_trace(world, draw_fleet(world), 2)
    world = Scenario().using(cell={"channel": {"shadowing": 6.0, "move": 1.0}})
    with pytest.raises(BadInput, match="correlation_distance is missing"):
        draw_fleet(world)


def test_listed_clients_too_near_are_refused_unless_their_gain_is_known():
    table = {"distance": [5.0, None], "gain": [None, 1e-9]}
    with pytest.raises(BadInput, match="holds for 10 to 5000 m, and a client is at 5 m"):
        Scenario().using(
            clients={"table": table},
            cell={"channel": {"model": "uma"}},
            plan={"cohort": 1},
        )


# Measured channels.

DRIVE = "phone,RSRP,SINR,up\na,-80,10,20\nb,-100,0,2\na,-90,,10\nb,-110,-3,0\na,-95,5,-\n"


def measured(tmp_path, text=DRIVE, **keys):
    (tmp_path / "drive.csv").write_text(text)
    (tmp_path / "mine.toml").write_text(
        "[cell.channel.measured]\n"
        + "\n".join(
            f'{key} = "{v}"' if isinstance(v, str) else f"{key} = {v}" for key, v in keys.items()
        )
        + "\n[clients]\ncount = 2\nspread = 0.0\n[plan]\ncohort = 2\n"
    )
    return load_scenario(tmp_path / "mine.toml")


def test_columns_of_a_drive_test_are_channels(tmp_path):
    keys = {"file": "drive.csv", "device": "phone"}
    world = measured(tmp_path, **keys, rsrp_dbm="RSRP", station_dbm=20)
    assert world.rounds == 2
    assert_allclose(world.cell.recorded.values, [[1e-10, 1e-12], [1e-11, 1e-13]])
    world = measured(tmp_path, **keys, snr_db="SINR")
    assert_allclose(world.cell.recorded.values, [[10, 1], [10**0.5, 10**-0.3]])
    trace = draw_trace(world, fleet := draw_fleet(world), 2)
    snr = fleet.power[trace.cohort] * trace.gain / world.cell.noise  # p_j^0 h_j / N_0 in (5)
    assert_allclose(np.sort(snr, axis=1), np.sort(world.cell.recorded.values, axis=1))
    world = measured(tmp_path, **keys, rate_mbps="up")
    trace = draw_trace(world, fleet := draw_fleet(world), 2)
    assert trace.called.tolist() == [2, 1]  # without a rate, a client is in outage
    some = trace.cohort >= 0
    snr = fleet.power[trace.cohort[some]] * trace.gain[some] / world.cell.noise
    assert_allclose(np.sort(world.cell.bandwidth * np.log2(1 + snr)), [2e6, 10e6, 20e6])


def test_one_series_is_cut_into_devices(tmp_path):
    text = "up\n" + "\n".join(map(str, range(1, 8)))
    world = measured(tmp_path, text, file="drive.csv", rate_mbps="up", devices=2)
    assert_allclose(world.cell.recorded.values, np.array([[1, 4], [2, 5], [3, 6]]) * 1e6)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({}, "file is missing"),
        ({"file": "drive.csv"}, "expected one of gain_db, rsrp_dbm, snr_db, rate_mbps"),
        ({"file": "drive.csv", "rate_mbps": "uq"}, "has no 'uq'"),
        ({"file": "drive.csv", "rate_mbps": "phone"}, "line 2: phone = 'a': expected a number"),
        ({"file": "drive.csv", "rsrp_dbm": "RSRP"}, "station_dbm is missing"),
        ({"file": "drive.csv", "snr_db": "SINR", "station_dbm": 3}, "station_dbm is for rsrp_dbm"),
        ({"file": "drive.csv", "rate_mbps": "up", "devices": 9}, "fewer than one for each"),
        ({"file": "drive.csv", "rate_mbps": "up", "devices": 2, "device": "phone"}, "not both"),
        ({"file": "drive.csv", "rate_mbps": "up"}, "1 devices for 2 clients: set clients.count"),
        ({"file": "drive.csv", "rate": "up"}, "rate is not a key; did you mean"),
        ({"file": "drive.csv", "gain_db": "SINR", "device": "phone"}, "expected 0 to 1"),
        ({"file": "none.csv", "rate_mbps": "up"}, "none.csv"),
    ],
)
def test_measurements_that_cannot_be_read_are_refused(keys, sentence, tmp_path):
    with pytest.raises(BadInput, match=sentence):
        measured(tmp_path, **keys)


def test_rates_of_devices_are_the_simplest_scenario(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,rate_mbps\npump,20\ngate,5\nroof,0.1\n")
    (tmp_path / "mine.toml").write_text(
        '[clients]\ntable = "fleet.csv"\n[plan]\ncohort = 3\nrounds = 4\n'
    )
    world = load_scenario(tmp_path / "mine.toml")
    trace = draw_trace(world, fleet := draw_fleet(world), 4)
    assert (trace.called == 3).all()  # nothing fades, and a slow device is not in outage
    rate = world.cell.bandwidth * np.log2(1 + fleet.power * fleet.mean_gain / world.cell.noise)
    assert_allclose(rate, [20e6, 5e6, 0.1e6])
    with pytest.raises(BadInput, match="has no rate: give one to each client, or to none"):
        Clients(table={"rate_mbps": [1.0, None], "samples": [5, 5]})
