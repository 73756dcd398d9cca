"""Every figure that the package draws shows all of its data, and can be read: also of one point,
zeros, gaps, huge ranges, many clients and long names."""

import inspect
import pkgutil
from importlib import import_module

import pytest
from matplotlib.figure import Figure

from fedcell.show import figures
from fedcell.show.figures.style import drawing
from support.drawn import every_case
from support.figures import faults

# Cases that `make test` draws, of any figure; `make test-flower` draws all.
QUICK = {"at once", "cheapest first", "cut", "far off", "huge range", "long names"}
QUICK |= {"losses", "many clients", "one round", "pilot", "skew", "tones", "zeros"}
CASES = every_case()
EVERY = [
    pytest.param(
        draw, id=f"{function.__name__}-{name}", marks=[] if name in QUICK else [pytest.mark.long]
    )
    for function, cases in CASES.items()
    for name, draw in cases.items()
]


@pytest.mark.parametrize("draw", EVERY)
def test_a_figure_shows_all_of_its_data(draw):
    with drawing():
        assert faults(draw()) == []


def test_every_figure_function_has_cases():
    found = set()
    for module in pkgutil.iter_modules(figures.__path__, f"{figures.__name__}."):
        for name, function in inspect.getmembers(import_module(module.name), inspect.isfunction):
            if name.endswith("_figure") and function.__module__ == module.name:
                found.add(function)
    assert all(QUICK & set(cases) for cases in CASES.values())
    tools = {"new_figure", "sized_figure", "save_figure"}
    assert {f for f in found if f.__name__ not in tools} == set(CASES)


def panel():
    axes = Figure(layout="constrained").subplots()
    axes.set(xlabel="time [s]", ylabel="energy [J]")
    return axes


def line_outside(axes):
    axes.plot([0, 1], [0, 1])
    axes.set_ylim(bottom=0)
    axes.plot([0, 1], [0, 5])


def band_outside(axes):
    axes.fill_between([0, 1], [0, 0], [1, 2])
    axes.set_ylim(0, 1.5)


def points_outside(axes):
    axes.scatter([0, 1], [0, 1])
    axes.set_xlim(-1, 0.5)


def bar_outside(axes):
    axes.bar([1, 2], [3, 4])
    axes.set_ylim(0, 3.5)


def error_bar_outside(axes):
    axes.errorbar([1, 2], [3, 4], yerr=[1, 2])
    axes.set_ylim(1, 5)


def marker_cut(axes):
    axes.plot([1, 2], [3, 4], "o")
    axes.set_xlim(1, 3)


def zero_on_logarithms(axes):
    axes.plot([1, 2, 3], [1, 0, 2])
    axes.set_yscale("log")


def single_point(axes):
    axes.plot([1], [3])


def hidden_numbers(axes):
    axes.plot([1, 2], [3, 4])
    axes.tick_params(labelleft=False)


def one_number(axes):
    axes.plot([1, 2], [3, 4])
    axes.set_yticks([3])


def no_label(axes):
    axes.plot([1, 2], [3, 4])
    axes.set_xlabel("")


def no_unit(axes):
    axes.plot([1, 2], [3, 4])
    axes.set_ylabel("energy of all clients")


def parts_of_a_round(axes):
    axes.plot([1, 2], [3, 4])
    axes.set_xlabel("rounds")


def same_names(axes):
    axes.bar([1, 2], [3, 4])
    axes.set_xticks([1, 2], ["pump", "pump"])


def crowded_ticks(axes):
    axes.plot([1, 2], [3, 4])
    axes.set_xticks([1, 1.01, 1.02], ["a long name", "another one", "and one more"])


def text_outside(axes):
    axes.plot([1, 2], [3, 4])
    axes.figure.set_layout_engine("none")
    axes.text(3, 3, "beyond")


def hidden_data(axes):
    axes.plot([1, 2], [3, 4], "o", label="hidden")
    axes.legend(loc="upper right")


BAD = {
    line_outside: "points lie outside in y",
    band_outside: "points lie outside in y",
    points_outside: "points lie outside in x",
    bar_outside: "points lie outside in y",
    error_bar_outside: "points lie outside in y",
    marker_cut: "markers are cut in x",
    zero_on_logarithms: "points lie outside in y",
    single_point: "one point without a marker is not seen",
    hidden_numbers: "the y axis has no tick labels",
    one_number: "the y axis has one number only",
    no_label: "the x axis has no label",
    no_unit: "the y axis has no unit",
    parts_of_a_round: "the x axis counts, in parts",
    same_names: "says the same twice",
    crowded_ticks: "overlap",
    text_outside: "leaves the figure",
    hidden_data: "legend covers",
}


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__)
def test_a_fault_is_found(spoil):
    axes = panel()
    spoil(axes)
    assert [fault for fault in faults(axes.figure) if BAD[spoil] in fault]


def test_a_plain_figure_has_no_fault():
    axes = panel()
    axes.plot([1, 2, 3], [3, 4, 5], "o-")
    assert faults(axes.figure) == []
