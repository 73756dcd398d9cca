"""Results show themselves: every kind has its table and its figure, and says what it is."""

import dataclasses
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest
from matplotlib.image import imread

import fedcell
from fedcell import (
    Region,
    Scenario,
    compare,
    load_scenario,
    plan_training,
    run,
    run_pilot,
    run_seeds,
    schedule_round,
)
from fedcell.core.showing import Showable
from fedcell.deploy.exchanges import Exchange, ExchangeReport
from fedcell.deploy.testbed import uploads as testbeds
from fedcell.errors import BadInput
from fedcell.experiments.executors import Inline
from fedcell.experiments.experiment import Experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep
from fedcell.learning import prepare_training
from fedcell.learning.partition_report import describe_partition
from fedcell.network import (
    draw_fleet,
    draw_trace,
    fit_device,
    link_curve,
    simulate_network,
    sweep_costs,
)
from fedcell.network.compare import CostSweep
from fedcell.network.ledger import Ledger
from fedcell.paper.catalogue import panel_verdicts
from fedcell.paper.load import Edition
from fedcell.paper.reproduce import Reproduction
from fedcell.planning.constants import measure_constants
from fedcell.planning.pilot.validation import validate_pilot
from fedcell.policies import make_problem
from fedcell.show.drawing import FIGURES, PANELS
from fedcell.show.figures.style import drawing
from fedcell.show.results import TABLES
from fedcell.simulation.summary import RunResult
from support.drawn import league
from support.figures import faults
from support.printed import is_plus_minus, tables


def kinds_of_result():
    for module in pkgutil.walk_packages(fedcell.__path__, "fedcell."):
        needs_torch = "torch" in module.name or module.name.endswith(("lora.layers", "lora.ranks"))
        if not needs_torch and "__main__" not in module.name:
            try:
                import_module(module.name)
            except ModuleNotFoundError as error:
                if str(error.name).partition(".")[0] != "flwr":  # which need not be installed
                    raise
    found = Showable.__subclasses__()
    ours = (kind for kind in found if kind.__module__.startswith("fedcell."))
    return [kind for kind in ours if not inspect.isabstract(kind)]


def test_every_result_has_a_table_a_figure_and_a_repr():
    kinds = set(kinds_of_result())
    assert kinds == {named(f"fedcell.{name}") for name in TABLES} == set(FIGURES)
    for kind in kinds:
        assert "__repr__" in vars(kind), kind
        assert kind.rows.__doc__ or Showable.rows.__doc__


def named(path):
    """What a dotted name of the tables of results stands for."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def test_printing_a_plan_loads_no_other_results():
    code = (
        "import sys; from fedcell import Scenario, plan_training;"
        "from fedcell.planning import GivenLaw;"
        "law = GivenLaw(mixing=40.0, drift=2.0, start=100.0);"
        "print(len(plan_training(Scenario(), law).summary()));"
        "print([m for m in ('deploy', 'paper', 'experiments.sweep', 'planning.constants')"
        " if f'fedcell.{m}' in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    length, loaded = ran.stdout.splitlines()
    assert int(length) > 400
    assert loaded == "[]"


def test_a_summary_is_what_the_command_prints(fedcell):
    said = fedcell("cost", "paper", "--rounds", 10, "--policy", "even", "--policy", "optimal")
    mine = compare(Scenario(), ["even", "optimal"], rounds=10).summary()
    lines = [
        [line.rstrip() for line in text.splitlines() if line.strip()] for text in (said.out, mine)
    ]
    assert lines[0][1:] == lines[1][1:]  # but for the name of the scenario
    assert lines[1][0].startswith("scenario: K = 10 of 100 clients")


def test_rows_are_tidy():
    found = compare(Scenario(), ["even", "optimal"], rounds=10)
    rows = found.rows()
    assert len(rows) == 2 * 6
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    assert rows[0]["value"] == found["even"].mean["upload_cost"].value
    with pytest.raises(KeyError):
        found["nope"]
    assert re.fullmatch(r"<Comparison over 10 rounds, .* optimal [\d.]+ s>", repr(found))


def test_to_pandas_without_pandas_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(BadInput, match="`to_pandas` needs pandas: pip install"):
        simulate_network(Scenario(), "even", 3).to_pandas()


@pytest.mark.extras
def test_rows_become_a_frame():
    pandas = pytest.importorskip("pandas")
    ledger = simulate_network(Scenario(), "even", 5)
    frame = ledger.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["energy"].tolist() == ledger.energy.tolist()
    assert frame["round"].tolist() == [1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One result of every kind."""
    world = Scenario().using(
        clients={"count": 12, "samples": 40, "spread": 0.0},
        plan={"cohort": 4, "local_steps": 4, "rounds": 300},
        learning={"model": "quadratic-apart", "rate": 0.02, "target": 1.5},
    )
    pilot = run_pilot(world, budget=2.0, region=Region(steps=(1, 16)))
    plan = plan_training(world, pilot)
    taken = run(plan.apply_to(), ["optimal", "even"])
    digits = prepare_training(load_scenario("digits"))
    store = Store(tmp_path_factory.mktemp("store"))
    swept = run_sweep(
        Experiment.sweep(world, {"plan.local_steps": [2, 4, 8]}, seeds=2), store, Inline()
    )
    everything = [
        swept,
        swept.table,
        Reproduction(
            panel="fig3c",
            edition=Edition(quick=True),
            table=swept.table,
            verdicts=tuple(panel_verdicts("fig3c", swept.table)),
        ),
        schedule_round(draw_problem()),
        compare(Scenario(), ["even", "optimal"], rounds=5),
        sweep_costs(Scenario(), ["even"], rounds=3),
        simulate_network(Scenario(), "even", 5),
        link_curve(Scenario().using(radio={"rate_table": "nr-64qam"})),
        taken,
        run_seeds(world, ["even", "optimal"], seeds=2, rounds=30),
        describe_partition(digits),
        pilot,
        pilot.fit(),
        validate_pilot(world, pilot, budget=0.2),
        plan,
        plan.compare(taken),
        measure_constants(prepare_training(world), rounds=4, every=2),
        exchanged(),
        on_links(),
        league(3),
        fit_device(Path(__file__).parents[2] / "examples" / "devices" / "synthetic.csv"),
    ]
    return {type(result): result for result in everything}


def exchanged():
    times = {"share": 0.5, "modelled_upload": 1.0, "measured_upload": 1.5, "measured_waiting": 2.0}
    lines = [
        Exchange(round=t, client=j, name=f"pump-{j}", outcome="arrived", **times)
        for t in (1, 2)
        for j in (0, 1)
    ]
    return ExchangeReport(exchanges=tuple(lines))


def on_links():
    times = {"modelled": 2.0, "link": 2.1, "flower": 3.0, "modelled_training": 1, "training": 1.1}
    upload = testbeds.MeasuredUpload(
        round=1, client=0, name="pump", rate=1e6, cpu=0.5, bytes=250_000, **times
    )
    return testbeds.TestbedReport(uploads=(upload,), bits=2e6, policy="even", limited=True)


def draw_problem():
    scenario = Scenario()
    fleet = draw_fleet(scenario)
    return make_problem(scenario, fleet, draw_trace(scenario, fleet, rounds=1))[0]


@pytest.mark.parametrize("kind", FIGURES, ids=lambda kind: kind.__name__)
def test_every_result_has_a_summary_rows_and_a_figure(results, kind, tmp_path):
    result = results[kind]
    assert repr(result).startswith(f"<{kind.__name__}")
    assert len(result.summary()) > 40
    assert_html_shows_the_summary(result)
    rows = result.rows()
    assert rows
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    json.dumps(rows)  # plain values
    result.plot(tmp_path / "it.png")
    assert imread(tmp_path / "it.png").std() > 0.01
    with drawing():
        for panel in PANELS[kind]:
            if panel not in ("accuracy", "local_epochs"):  # quadratics have none, nor this sweep
                assert faults(result.plot(panel=panel)) == []


def test_a_ledger_in_words(results):
    ledger = simulate_network(Scenario(), "even", 5)
    words = ledger.summary()
    assert f"5 rounds: {ledger.duration.sum():.4g} s, {ledger.energy.sum():.4g} J" in words
    assert f"a round on average: {ledger.duration.mean():.4g} s" in words
    trained = results[RunResult].ledgers["even"]
    assert f"training loss after the last round: {trained.train_loss[-1]:.4g}" in trained.summary()


def test_a_sweep_in_words(results):
    sweep = results[CostSweep]
    printed = tables(sweep.summary())
    over_k = printed["C_u + C_n of a round over cohort"]
    points = [p for p in sweep.points if p.axis == "cohort"]
    assert over_k.columns["cohort"] == [str(p.value) for p in points]
    for cell, point in zip(over_k.columns["even [s]"], points, strict=True):
        estimate = point.comparison["even"].mean["staged_cost"]
        assert is_plus_minus(cell, vars(estimate))


class NamedLedger(Ledger):
    """A subclass of a result."""


class Weather(Showable):
    """A result of another package."""

    def __init__(self, rows):
        self._rows = rows

    def rows(self):
        return self._rows


class Poem(Weather):
    """A result that defines its summary."""

    def summary(self, **_options):
        return "roses <red>\n  violets"


def text_of(html):
    """The text of each element, unescaped, and the names of all elements."""

    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.texts, self.elements = [], set()

        def handle_starttag(self, tag, attrs):
            assert not attrs
            self.elements.add(tag)

        def handle_data(self, data):
            self.texts.append(data)

    reader = Reader()
    reader.feed(html)
    return reader.texts, reader.elements


def assert_html_shows_the_summary(result):
    """The same cells, and the same words, as in the text."""
    texts, elements = text_of(result._repr_html_())
    assert elements <= {"div", "p", "br", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    words = set(re.findall(r"[\w.]+", " ".join(texts)))
    assert words == set(re.findall(r"[\w.]+", result.summary()))


def test_a_subclass_is_shown_like_its_base():
    ledger = simulate_network(Scenario(), "even", 5)
    columns = {field.name: getattr(ledger, field.name) for field in dataclasses.fields(Ledger)}
    mine = NamedLedger(**columns)
    assert mine.summary() == ledger.summary()
    assert mine._repr_html_() == ledger._repr_html_()
    with drawing():
        assert faults(mine.plot()) == []
        assert faults(mine.plot(panel="energy")) == []


def test_a_result_of_another_package_is_printed_by_its_rows():
    mine = Weather([{"day": 1, "rain [mm]": 2.34567}, {"day": 2, "wind": "north"}])
    (table,) = tables(mine.summary()).values()
    assert table.columns == {
        "day": ["1", "2"],
        "rain [mm]": ["2.346", "-"],
        "wind": ["-", "north"],
    }
    assert mine.summary(name="July").splitlines()[0] == "July"
    assert_html_shows_the_summary(mine)
    assert Weather([]).summary() == "Weather: no rows"
    assert (
        Weather([{"day": day} for day in range(100)])
        .summary()
        .endswith("and 40 more rows, see `rows()`")
    )
    for panel in (None, "rain"):
        with pytest.raises(BadInput, match="no figure for a Weather: define its plot method"):
            mine.plot(panel=panel)


def test_html_escapes_names_of_clients():
    name = "<script>alert('x')</script> & \x1b[31m"
    lines = [Exchange(round=1, client=0, name=name, outcome="arrived", share=0.5)]
    shown = ExchangeReport(exchanges=tuple(lines))._repr_html_()
    texts, elements = text_of(shown)
    assert "script" not in elements
    assert "<script>alert('x')</script> & \\x1b[31m" in texts
    assert "\x1b" not in shown


def test_html_of_a_class_with_its_own_summary_is_preformatted():
    texts, elements = text_of(Poem([])._repr_html_())
    assert elements == {"div", "pre"}
    assert "roses <red>\n  violets" in texts
