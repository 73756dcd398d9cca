"""The committed figures are those that today's commands draw, from today's data."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import matplotlib
import pytest

from support.figures import faults

ROOT = Path(__file__).parents[2]


def script():
    """docs/figures.py, which is no part of a package."""
    place = spec_from_file_location("docs_figures", ROOT / "docs" / "figures.py")
    module = module_from_spec(place)
    sys.modules["docs_figures"] = module
    place.loader.exec_module(module)
    return module


FIGURES = script()
# `make test` draws what takes less than half a second, of the panels of the paper one of each kind.
QUICK = [f"docs/images/{name}.png" for name in ("plan-digits", "round", "policies", "testbed")]
QUICK += [f"experiments/results/{name}/{name}.png" for name in ("fig3a", "fig5b", "laws", "theory")]


def marked(each):
    marks = [] if each.file in QUICK else [pytest.mark.long]
    return pytest.param(each, id=each.file, marks=[pytest.mark.extras] if each.extra else marks)


# tests/test_pages.py compares the others when it runs their pages.
DRAWN = [marked(each) for each in FIGURES.FIGURES.values() if not each.page]


@pytest.mark.parametrize("committed", DRAWN)
def test_a_committed_figure_is_what_is_drawn_today(committed):
    if committed.extra:
        pytest.importorskip(committed.extra)
    drawn = FIGURES.draw(committed)
    assert FIGURES.stale(committed, drawn) == [], "draw it again: make figures"
    with matplotlib.rc_context(drawn.settings):
        assert faults(drawn.figure) == []


def test_every_committed_figure_is_compared():
    files = [
        *ROOT.glob("docs/**/*.p[nd][gf]"),
        *(ROOT / "experiments/results").rglob("*.p[nd][gf]"),
    ]
    names = {str(file.relative_to(ROOT)) for file in files}
    assert names - FIGURES.SCREENSHOTS == set(FIGURES.FIGURES)
    assert names >= FIGURES.SCREENSHOTS


def test_figures_are_drawn_by_the_commands_of_the_pages():
    pages = "".join(page.read_text() for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
    for each in FIGURES.OF_PAGES:
        for command in each.commands:
            if command.startswith("python "):  # the Python of a page
                page = (ROOT / command.removeprefix("python ")).read_text()
                assert command != each.commands[-1] or f'.plot("{each.drawn}")' in page, command
            else:
                assert f"    $ {command}" in pages, command


def a_figure(values, top=None):
    figure = matplotlib.figure.Figure()
    panel = figure.subplots()
    panel.plot(range(len(values)), values, label="loss")
    panel.legend()
    if top is not None:
        panel.set_ylim(0, top)
    return FIGURES.Drawn.now(figure)


@pytest.mark.parametrize("name", ["a.png", "a.pdf"])
def test_a_picture_carries_what_it_shows(tmp_path, name):
    drawn = a_figure([1.0, 2.5, 1.5])
    FIGURES.write(drawn, tmp_path / name)
    FIGURES.write(drawn, tmp_path / f"again-{name}")
    kept = FIGURES.read(tmp_path / name)
    assert kept == FIGURES.describe(drawn)
    assert kept["panels"][0]["marks"][0]["y"] == [1.0, 2.5, 1.5]
    assert (tmp_path / name).read_bytes() == (tmp_path / f"again-{name}").read_bytes()
    assert FIGURES.read(ROOT / "README.md") is None


def test_visible_differences_of_figures_are_reported():
    kept = FIGURES.describe(a_figure([1.0, 2.5, 1.5]))

    def differ(drawn, **more):
        return FIGURES.differences(kept, FIGURES.describe(drawn), **more)

    assert differ(a_figure([1.0, 2.5001, 1.5])) == []
    assert "other places in y" in differ(a_figure([1.0, 2.5, 1.6]))[0]
    assert any("limits of y" in each for each in differ(a_figure([1.0, 2.5, 1.5], top=2.0)))
    assert any("other places" in each for each in differ(a_figure([1.0, 2.5])))
    assert differ(a_figure([1.0, 2.5, 1.6]), trained=True) == []
    assert differ(a_figure([1.0, 2.0, 1.5]), trained=True) != []
