"""Devices fitted to measurements: by hand, against SciPy, coverage, round trips, bad tables."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares

from fedcell import Clients, load_scenario
from fedcell.errors import BadInput
from fedcell.network import FittedDevice, draw_fleet, draw_trace, fit_device
from fedcell.policies import Schedule, make_problem, price
from fedcell.scenario.catalogue.entries import Catalogue
from fedcell.scenario.measured_device.measurements import Measurements

EXAMPLES = Path(__file__).parents[2] / "examples" / "devices"
TRUTH = {
    "cycles_per_step": 1.7e7,
    "cycles_per_sample": 1.1e6,
    "memory_time": 2e-4,
    "busy_power": 4.0,
    "kappa": 5e-28,
    "power_exponent": 3.0,
    "idle_power": 2.7,
}
CLOCKS, BATCHES = (6e8, 9e8, 1.2e9, 1.5e9, 1.8e9), (1, 4, 16)
TABLE = "clock_ghz,batch,steps,seconds,watts\n"


def measured(noise=0.0, seed=0, clocks=CLOCKS, batches=BATCHES, repeat=1, **other):
    """Columns of a device of known numbers."""
    true = TRUTH | other
    rng = np.random.default_rng(seed)
    f, b = (x.ravel() for x in np.meshgrid(np.repeat(clocks, repeat), batches))

    def read(values):
        return np.asarray(values) * np.exp(noise * rng.standard_normal(np.shape(values)))

    works = (true["cycles_per_step"] + true["cycles_per_sample"] * b) / f
    step = works + true["memory_time"] * b
    watts = true["busy_power"] + true["kappa"] * f ** true["power_exponent"] * works / step
    idle = read([true["idle_power"]] * 4).tolist()
    none = [None] * 4
    return {
        "clock_hz": [*f.tolist(), *none],
        "batch": [*b.tolist(), *none],
        "steps": [*[100] * f.size, *none],
        "seconds": [*read(100 * step).tolist(), *none],
        "watts": [*read(watts).tolist(), *idle],
    }


def best_clock(done=0.0, **other):
    true = TRUTH | other
    alpha = true["power_exponent"]
    return ((true["busy_power"] - done) / ((alpha - 1) * true["kappa"])) ** (1 / alpha)


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"power_exponent": 2.2, "kappa": 1e-20},
        {"memory_time": 0.0},
        {"cycles_per_step": 0.0},
    ],
)
def test_exact_measurements_give_the_numbers_back(other):
    fitted = fit_device(measured(**other))
    found = fitted.estimates()
    for key, value in (TRUTH | other).items():
        assert found[key].value == pytest.approx(value, rel=1e-6, abs=1e-9), key
    powers = fitted.powers
    assert powers.best_clock.value == pytest.approx(best_clock(**other), rel=1e-6)
    assert powers.best_clock_idle.value == pytest.approx(best_clock(2.7, **other), rel=1e-6)
    assert fitted.unknown == {}


def test_three_steps_by_hand():
    """Batch 1 and 3 at 1 GHz: 3 and 5 ms, so 1 ms a sample and 2 ms a step; 2 GHz, batch 1: 2 ms.
    (c_s + c_n) / 1e9 + m = 3e-3 and (c_s + c_n) / 2e9 + m = 2e-3: m = 1 ms, c_n = 0, c_s = 2e6."""
    columns = {"clock_ghz": [1, 1, 2], "batch": [1, 3, 1], "samples": [1, 3, 1]}
    fitted = fit_device({**columns, "milliseconds": [3, 5, 2]})
    values = {key: each.value for key, each in fitted.times.estimates.items()}
    expected = {"cycles_per_step": 2e6, "cycles_per_sample": 0.0, "memory_time": 1e-3}
    assert values == pytest.approx(expected, abs=1e-3)
    assert all(np.isnan(each.low) for each in fitted.times.estimates.values())  # no freedom


def test_joules_are_watts_times_seconds():
    columns = measured(0.01)
    seconds = [1.0 if s is None else s for s in columns["seconds"]]
    joules = [w * s for w, s in zip(columns["watts"], seconds, strict=True)]
    other = {k: v for k, v in columns.items() if k != "watts"} | {"seconds": seconds}
    one, two = fit_device(columns), fit_device(other | {"joules": joules})
    for key, each in one.estimates().items():
        assert two.estimates()[key].value == pytest.approx(each.value, rel=1e-9), key


def test_the_power_law_is_that_of_scipy():
    """Least squares of relative residuals, over all three numbers at once."""
    columns = measured(0.03, seed=3, memory_time=0.0)
    columns = {name: columns[name] for name in ("clock_hz", "watts")}
    law = fit_device(columns).powers
    f = np.array(columns["clock_hz"][:-4]) / 1e9
    watts = np.array(columns["watts"][:-4])
    fitted = law.watts(f * 1e9, 1.0)

    def residuals(p):
        return (watts - p[0] - p[1] * f ** p[2]) / fitted

    found = least_squares(residuals, [3.0, 1.0, 2.0], xtol=1e-14, ftol=1e-14, gtol=1e-14)
    ours = np.array([law.busy_power.value, law.kappa.value * 1e9**law.exponent.value])
    assert ours == pytest.approx(found.x[:2], rel=3e-3)  # alpha is on a grid of 0.001
    assert law.exponent.value == pytest.approx(found.x[2], abs=1e-3)
    assert law.rms == pytest.approx(np.sqrt(np.mean(residuals(found.x) ** 2)), rel=1e-4)


@pytest.mark.parametrize("done", [None, 1.5])
def test_the_interval_of_the_optimal_clock_is_that_of_all_laws_that_fit(done):
    """Brute force: all P_b and D with a sum of squares below the limit, at alpha = 3."""
    rng = np.random.default_rng(2)
    f = np.repeat([0.6, 1.0, 1.4], 2)
    watts = (2.0 + 0.5 * f**3) * (1 + 0.08 * rng.standard_normal(6))
    columns = {"clock_ghz": f.tolist(), "watts": watts.tolist()}
    if done is not None:
        columns = {"clock_ghz": [*f, None], "watts": [*watts, done]}
    law = fit_device(columns, exponent=3.0).powers
    fitted = law.watts(f * 1e9)
    P, D = np.meshgrid(np.linspace(1.5, 3.0, 1501), np.linspace(0.01, 1.5, 1491), indexing="ij")
    z = f**3
    squares = sum(((w - P - D * x) / v) ** 2 for w, x, v in zip(watts, z, fitted, strict=True))
    t = 2.7764451  # of Student's with 4 degrees of freedom, 97.5 %
    inside = squares <= squares.min() * (1 + t * t / 4)
    shift, best = (0.0, law.best_clock) if done is None else (done, law.best_clock_idle)
    clocks = (np.maximum(P - shift, 0.0) / (2 * D))[inside] ** (1 / 3)
    assert best.low / 1e9 == pytest.approx(clocks.min(), rel=0.01)
    assert best.high / 1e9 == pytest.approx(clocks.max(), rel=0.01)


def covered(count, **settings):
    """How often each interval covers the truth."""
    hits: dict[str, list[bool]] = {}
    for seed in range(count):
        fitted = fit_device(measured(seed=seed, **settings))
        true = TRUTH | {k: v for k, v in settings.items() if k in TRUTH}
        other = {k: v for k, v in settings.items() if k in TRUTH}
        for key, each in fitted.estimates().items():
            if key != "top_power":
                hits.setdefault(key, []).append(each.low * 0.999999 <= true[key] <= each.high)
        best = fitted.powers.best_clock
        hits.setdefault("best_clock", []).append(best.low <= best_clock(**other) <= best.high)
        best, true = fitted.powers.best_clock_idle, best_clock(2.7, **other)
        hits.setdefault("best_clock_idle", []).append(best.low <= true <= best.high)
    return {key: float(np.mean(each)) for key, each in hits.items()}


def test_intervals_cover_the_truth():
    """95 % of 60 fits: 57, with a standard deviation of 1.7."""
    assert all(0.85 <= rate <= 1.0 for rate in covered(60, noise=0.02).values())


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {"noise": 0.02, "repeat": 2},
        {"noise": 0.1, "repeat": 2},
        {"noise": 0.02, "power_exponent": 2.2, "kappa": 1e-20, "memory_time": 0.0},
        {"noise": 0.03, "clocks": (6e8, 1.2e9, 1.8e9)},
        {"noise": 0.05, "memory_time": 2e-3, "repeat": 2},
    ],
)
def test_intervals_cover_the_truth_in_95_percent_of_fits(settings):
    """400 fits each: a standard deviation of 1.1 %; linearisation costs up to 2 %."""
    for key, rate in covered(400, **settings).items():
        assert 0.91 <= rate <= 0.985, (key, rate)


def test_fitted_devices_are_priced_as_they_were_measured(tmp_path, fedcell):
    """Simulate a known device, fit it, write it, and price it in a scenario and in a table."""
    (tmp_path / "m.csv").write_text(_csv(measured(0.003, seed=5, repeat=3)))
    said = fedcell("fit-device", tmp_path / "m.csv", "--out", tmp_path / "mine.toml").out
    assert 'catalogue = "' in said
    entry = Catalogue.load(tmp_path / "mine.toml").find("device", "mine")
    assert {fact.mark for fact in entry.facts} <= {"measured", "derived"}
    own = 'catalogue = "mine.toml"\n'
    (tmp_path / "a.toml").write_text(own + 'device = "mine"\n[clients]\nspread = 0.0\n')
    (tmp_path / "fleet.csv").write_text("name,device\na,mine\nb,\n")
    (tmp_path / "b.toml").write_text(own + '[clients]\ntable = "fleet.csv"\n[plan]\ncohort = 2\n')
    world = load_scenario(tmp_path / "a.toml").using(
        task={"cycles_per_sample": TRUTH["cycles_per_sample"]}
    )
    fleet = draw_fleet(world)
    problem = make_problem(world, fleet, draw_trace(world, fleet, 1))
    clock = np.full(problem.kappa.shape, 1.3e9)
    share = np.full(clock.shape, 1 / clock.shape[-1])
    cost = price(problem, Schedule(share, clock))
    trained = world.plan.local_steps * fleet.samples[0]
    works = (
        TRUTH["cycles_per_step"] * world.plan.local_steps + TRUTH["cycles_per_sample"] * trained
    ) / 1.3e9
    seconds = works + TRUTH["memory_time"] * trained
    joules = TRUTH["busy_power"] * seconds + TRUTH["kappa"] * 1.3e9**3 * works
    assert cost.compute_time[0, 0] == pytest.approx(seconds, rel=0.01)
    assert cost.compute_energy[0, 0] == pytest.approx(joules, rel=0.01)
    table = load_scenario(tmp_path / "b.toml").clients.table
    assert table.busy_power[0] == pytest.approx(4.0, rel=0.01)
    assert np.isnan(table.busy_power[1])
    assert table.freq_max[0] == 1.8e9
    shown = json.loads(fedcell("fit-device", tmp_path / "m.csv", "--json").out)
    assert shown["best_clock"]["sleeps"]["value"] == pytest.approx(best_clock(), rel=0.02)
    with pytest.raises(BadInput, match="no such device"):
        Clients(table={"device": ["mine"], "samples": [1.0]})


def _csv(columns):
    rows = zip(*columns.values(), strict=True)
    lines = (",".join("" if cell is None else repr(cell) for cell in row) for row in rows)
    return "\n".join([",".join(columns), *lines]) + "\n"


def test_fewer_than_three_clocks_give_no_optimal_clock():
    two = fit_device(measured(0.01, clocks=(1e9, 1.5e9), repeat=3))
    assert two.powers is None
    assert "watts at two clocks fix two numbers of three" in two.unknown["kappa"]
    assert two.clock_advice() == [
        "no energy-optimal clock: watts at 2 of 2 clocks, and it takes at least 3"
    ]
    given = fit_device(measured(0.01, clocks=(1e9, 1.5e9), repeat=3), exponent=3.0)
    assert given.powers.busy_power.low < 4.0 < given.powers.busy_power.high
    assert given.powers.best_clock is None
    assert "takes at least 3" in given.clock_advice()[0]
    assert 'power_exponent = { value = 3.0, unit = "", mark = "assumed"' in given.toml()
    one = fit_device(measured(0.01, clocks=(1e9,), repeat=3))
    assert set(one.unknown) == {"memory_time", "busy_power", "kappa", "power_exponent"}
    exact = fit_device({"clock_ghz": [1, 1.5, 2], "watts": [3, 4, 6]})
    assert exact.powers.best_clock is None
    assert "as many measurements as unknowns" in exact.clock_advice()[0]


def test_a_device_that_draws_much_at_any_clock_runs_flat_out():
    """f* = (20 / (2 5e-28))^(1/3) = 2.7 GHz, above the clocks that it has."""
    fitted = fit_device(measured(0.01, busy_power=20.0, repeat=2))
    assert fitted.powers.best_clock.value > 1.8e9
    assert "when done: run flat out, at 1.8 GHz or more (95 %: 2" in fitted.clock_advice()[0]
    # Watts that do not depend on the clock: no law, and no reason to run slower.
    flat = fit_device({"clock_ghz": [1, 1.5, 2, 2.5], "watts": [3.01, 2.99, 3.0, 2.99]})
    assert (
        "the watts do not rise with the clock by more than their errors: 2.998 W"
        in (flat.unknown["kappa"])
    )
    assert flat.clock_advice() == [
        "run flat out, at 2.5 GHz or more: the watts do not rise with the clock"
    ]
    # Joules a cycle that do not depend on the clock: alpha = 1, and no limit.
    linear = fit_device(
        {"clock_mhz": [80, 160, 240, 240], "watts": [0.0451, 0.0583, 0.0715, 0.0716]}
    )
    assert linear.powers.exponent.value == pytest.approx(1.0, abs=0.02)
    assert linear.powers.best_clock.high == np.inf
    assert "to no limit" in linear.clock_advice()[0]


def test_measurements_that_contradict_the_law_are_noted():
    # Idle at 4.5 W, and working at 4 to 7 W: P_b is held at 4.5 W, and the note says so.
    fitted = fit_device(measured(0.01, idle_power=4.5, repeat=2))
    assert fitted.powers.busy_power.value == pytest.approx(4.5, rel=0.02)
    assert fitted.powers.busy_power.low <= fitted.powers.busy_power.value
    assert "the watts tell busy_power = " in fitted.notes()[0]
    assert "check that both are of the whole device" in " ".join(fitted.summary().split())
    less = fit_device(measured(0.01, idle_power=6.0, repeat=2))
    assert less.powers is None
    assert "it draws less than when idle" in less.clock_advice()[0]
    # Seconds that no clock shortens: no work is known, so no joules of it.
    never = {"clock_ghz": [1, 1.5, 2, 2], "batch": [1, 2, 1, 2], "steps": [1] * 4}
    stuck = fit_device({**never, "seconds": [1, 2, 1, 2], "watts": [3, 4, 6, 6]})
    assert stuck.times.value("memory_time") == pytest.approx(1.0)
    assert "the seconds do not shrink with the clock" in stuck.clock_advice()[0]


def test_clocks_that_waver_are_one():
    wavering = {"clock_ghz": [1.498, 1.5, 1.502, 1.503], "watts": [4.0, 4.1, 4.2, 4.3]}
    fitted = fit_device(wavering)
    assert fitted.powers is None
    assert "watts at 1 of 1 clocks" in fitted.clock_advice()[0]


def test_what_is_not_told_is_named():
    one_batch = fit_device(measured(batches=(8,)))
    assert "one batch size, 8: counted with the samples" in one_batch.unknown["cycles_per_step"]
    # Cycles of a step go into those of its samples: 1.7e7 / 8 + 1.1e6.
    assert one_batch.times.value("cycles_per_sample") == pytest.approx(1.7e7 / 8 + 1.1e6)
    one_clock = fit_device(measured(clocks=(1e9,)))
    assert "one clock, 1 GHz: counted as cycles" in one_clock.unknown["memory_time"]
    assert one_clock.times.value("cycles_per_sample") == pytest.approx(1.1e6 + 2e-4 * 1e9)
    together = fit_device(
        {
            "clock_ghz": [1, 1, 2, 2],
            "batch": [1, 1, 4, 4],
            "steps": [1] * 4,
            "seconds": [1, 1, 2, 2],
        }
    )
    assert "clocks and batch sizes change together" in together.unknown["memory_time"]
    assert "idle_power" in together.unknown
    no_times = fit_device({"clock_ghz": [1, 2, 3, 3], "watts": [1, 2, 5, 5.1]})
    assert no_times.unknown["cycles_per_sample"] == "no row has seconds with batch and steps"
    assert no_times.times is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "needs a line of column names"),
        ("clock_ghz;watts\n1;2\n", "are they separated by commas"),
        ("clock_gz,watts\n1,2\n", "'clock_gz' is not a column of measurements; did you mean clock"),
        ("clock_ghz,clock_ghz\n1,2\n", "the column 'clock_ghz' stands twice"),
        ("clock_ghz,watts\n1\n", "line 2 has 1 values for 2 columns"),
        ("clock_ghz,watts\n# x\n1,two\n", "line 3: watts = 'two': expected a number, or nothing"),
        ("clock_ghz,watts\n1,nan\n", "line 2: watts = 'nan': expected a number"),
        ("clock_ghz,watts\n1,-2\n", "line 2: watts = -2: expected a number above 0"),
        ("clock_hz,watts\n1.5,2\n", "clock_hz = 1.5: clocks are from 0.1 MHz to 20 GHz; call the "
         "column clock_ghz"),
        ("clock_ghz,watts\n1500,2\n", "clock_ghz = 1500: clocks are .* call the column clock_mhz"),
        ("clock_ghz,watts\n1.5e9,2\n", "call the column clock_hz"),
        ("clock_ghz,clock_mhz,watts\n1,1000,2\n", "line 2 has two values of clock"),
        ("watts\n2\n", "no row has a clock: give a column clock_hz, clock_mhz or clock_ghz"),
        (TABLE + "1,2,,3,\n", "line 2 has a clock, but neither watts nor seconds with two of"),
        (TABLE + "1,2,3,4,5\n,,,6,\n", "line 3 has no clock, so it is of the idle device"),
        (TABLE + "1,2,3,4,5\n2,,,,5\n", "line 3 has watts and no batch, as other lines have"),
        ("clock_ghz,joules\n1,2\n", "line 2 has joules without seconds: give both, or watts"),
        ("clock_ghz,seconds,joules,watts\n1,2,3,4\n", "line 2 has joules and watts: give one"),
        ("clock_ghz,batch,steps,samples,seconds\n1,2,3,7,1\n", "batch x steps = 6, and samples"),
        ("clock_ghz,watts\n1,6\n1.5,5\n2,4\n2,4\n", "the watts fall as the clock rises: check"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_in_a_sentence(text, sentence, tmp_path, fedcell):
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(BadInput, match=sentence) as refused:
        fit_device(tmp_path / "m.csv")
    assert len(refused.value.faults) == 1
    said = fedcell("fit-device", tmp_path / "m.csv", "--out", tmp_path / "mine.toml")
    assert said.code == 2
    assert not (tmp_path / "mine.toml").exists()


def test_bad_options_are_refused(tmp_path, fedcell):
    (tmp_path / "m.csv").write_text(_csv(measured(0.01)))
    for words, sentence in (
        (["--name", "my board"], "'my board' is not the name of a device"),
        (["--exponent", "9"], "--exponent = 9.0: expected a number from 1 to 6"),
        (["--out", tmp_path / "mine.json"], "the name must end in one of: toml"),
    ):
        said = fedcell("fit-device", tmp_path / "m.csv", *words)
        assert (said.code, sentence in said.err) == (2, True), said.err
    held = tmp_path / "held.toml"
    held.write_text("[device.other.keys]\nidle_power = 1.0\n")
    said = fedcell("fit-device", tmp_path / "m.csv", "--out", held)
    assert "holds other devices (other): choose another file" in said.err
    assert "idle_power = 1.0" in held.read_text()


def test_the_synthetic_example_is_what_its_script_writes(tmp_path):
    script = tmp_path / "make_synthetic.py"
    script.write_text((EXAMPLES / "make_synthetic.py").read_text())
    subprocess.run([sys.executable, script], check=True)
    assert (tmp_path / "synthetic.csv").read_text() == (EXAMPLES / "synthetic.csv").read_text()
    fitted = fit_device(EXAMPLES / "synthetic.csv")
    for key, each in fitted.estimates().items():
        if key not in ("top_power", "kappa"):
            assert each.low <= TRUTH[key] <= each.high, key


def test_the_phone_example_agrees_with_the_catalogue():
    """15 million cycles a step; the catalogue has two phones, 17 million, within this interval."""
    fitted = fit_device(EXAMPLES / "phone-lenet.csv")
    steps = fitted.times.estimates["cycles_per_step"]
    kept = Catalogue.load().find("device", "phone-sd855").keys["cycles_per_step"]
    assert steps.low < kept < steps.high
    assert set(fitted.unknown) == {"memory_time", "idle_power", "busy_power", "kappa"} | {
        "power_exponent"
    }


def test_fitted_devices_show_themselves():
    fitted = fit_device(measured(0.02), name="board")
    assert isinstance(fitted, FittedDevice)
    assert repr(fitted).startswith("<FittedDevice, board: idle_power")
    assert repr(fitted.measured) == "<Measurements, 19 rows, 5 clocks, 3 batch sizes, 4 rows idle>"
    assert "energy-optimal clock of a device that sleeps when done" in fitted.summary()
    assert [row["key"] for row in fitted.rows()][:2] == ["idle_power", "busy_power"]
    assert "<table" in fitted._repr_html_()
    noisy = fit_device(measured(0.3, repeat=4))
    assert "the law misses the seconds by" in noisy.notes()[0]
    assert Measurements.of({"clock_ghz": [1.0], "watts": [1.0], "note": ["x"]}).powered.all()
