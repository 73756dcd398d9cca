"""Draws the figures of the pages again: those that a command would draw differently today.

    python docs/figures.py              # all of them; or name some: docs/images/cost-cnn.png
    python docs/figures.py --check      # only say which are stale, and in what

Each is drawn by the commands or the Python that its page shows, or from tables that are kept. A
file carries what it shows (limits, ticks, texts and data) in its metadata, so a picture is compared
with what is drawn today by its content, not by its pixels.
"""

import argparse
import base64
import io
import json
import math
import re
import shlex
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib

from fedcell.cli.main import main as fedcell
from fedcell.show.figures import style

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
PILOT = ROOT / "benchmarks" / "results" / "planning" / "pilot-digits.json"
MARK = "fedcell-figure:"  # before what a file shows
DIGITS = 6
# Parts of an axis by which data and limits may differ; other processors round differently, and a
# training goes on from that.
NEAR, TRAINED = 1e-3, 0.1
NUMBER = r"[+-]?\d+\.?\d*(?:e[+-]?\d+)?"


@dataclass(frozen=True)
class Committed:
    """A file, and the commands that draw it, in a folder that has the kept pilot.

    `python PAGE` runs the Python of a page."""

    file: str
    commands: tuple[str, ...]
    drawn: str  # what the last of them calls it
    trained: bool = False
    extra: str = ""  # a package that it needs
    page: str = ""  # a tutorial whose Python draws it instead, as `figure`; it needs extras


PLAN = "fedcell plan digits --pilot pilot-digits.json --out plan.json --figure plan.png"
LAW = "--mixing 200 --drift 0.1 --start 200 --floor 20"  # of the worlds
SITE_LAW = "--mixing 60 --drift 0.05 --start 300 --floor 15"
OF_PAGES = (
    Committed("docs/images/plan-digits.png", (PLAN,), "plan.png"),
    Committed(
        "docs/images/loss-digits.png", (PLAN, "fedcell run --plan plan.json"), "loss.png", True
    ),
    Committed(
        "docs/images/cost-cnn.png",
        (
            "fedcell scenario cnn > mine.toml",
            "fedcell cost mine.toml --rounds 1000 --figure cost.png",
        ),
        "cost.png",
    ),
    Committed(
        "docs/images/constants-digits.png",
        ("fedcell constants digits --figure constants.png",),
        "constants.png",
        True,
    ),
    Committed("docs/images/testbed.png", (), "testbed.png"),
    Committed("docs/images/outcome-digits.png", ("python README.md",), "outcome.png", True),
    Committed(
        "docs/images/round.png",
        ("fedcell schedule docs/round.json --figure round.png",),
        "round.png",
    ),
    Committed(
        "docs/images/round-power.png",
        ("fedcell schedule docs/round.json --policy optimal-power --figure power.png",),
        "power.png",
    ),
    Committed(
        "docs/images/fit-device.png",
        (
            "fedcell fit-device examples/devices/synthetic.csv --name board --out board.toml "
            "--figure fit.png",
        ),
        "fit.png",
    ),
    Committed(
        "docs/images/world-phones-5g.png",
        (f"fedcell plan phones-5g {LAW} --figure phones-5g.png",),
        "phones-5g.png",
    ),
    Committed(
        "docs/images/world-factory.png",
        (f"fedcell plan factory {LAW} --figure factory.png",),
        "factory.png",
    ),
    Committed(
        "docs/images/world-meters.png",
        (f"fedcell plan meters {LAW} --figure meters.png",),
        "meters.png",
    ),
    Committed(
        "docs/images/world-pis-wifi.png",
        (f"fedcell plan pis-wifi {LAW} --figure pis-wifi.png",),
        "pis-wifi.png",
    ),
    Committed(
        "docs/images/world-site.png",
        (
            "python docs/tutorials/data-sheet.md",
            f"fedcell plan site.toml {SITE_LAW} --out plan.json --figure plan.png",
        ),
        "plan.png",
    ),
    Committed("docs/images/rates.png", ("python docs/explanation/steps.md",), "rates.png"),
    Committed("docs/images/pumps.png", ("python docs/tutorials/2-your-fleet.md",), "pumps.png"),
    Committed(
        "docs/images/pumps-loss.png",
        ("python docs/tutorials/2-your-fleet.md",),
        "pumps-loss.png",
        True,
    ),
    Committed(
        "docs/images/policies.png", ("python docs/tutorials/3-own-policy.md",), "policies.png"
    ),
    Committed(
        "docs/images/torch-loss.png",
        ("python docs/tutorials/4-own-pytorch-model.md",),
        "torch-loss.png",
        True,
        "torch",
    ),
    Committed(
        "docs/images/fig6b-quick.png",
        ("fedcell reproduce fig6b --quick",),
        "fig6b.png",
    ),
)
OF_TUTORIALS = tuple(
    Committed(f"docs/images/{name}.png", (), "", True, page=f"docs/tutorials/{name}.md")
    for name in ("watch", "regression", "lora", "head")
)


OF_REGIMES = ("fig3a", "fig3c")  # whose figures are on the page


def _panels() -> Iterator[Committed]:
    for about in sorted(RESULTS.glob("*/experiment.json")):
        folder, name = about.parent, about.parent.name
        for ending, wide in (("png", ""), ("pdf", " --columns 1")):
            file = f"experiments/results/{name}/{name}.{ending}"
            command = f"fedcell figure {shlex.quote(str(folder))} --out {name}.{ending}{wide}"
            yield Committed(file, (command,), f"{name}.{ending}")
    for about in sorted(RESULTS.glob("*/*/experiment.json")):  # in a regime
        folder, name = about.parent, about.parent.name
        if name in OF_REGIMES:
            command = f"fedcell figure {shlex.quote(str(folder))} --out {name}.png"
            yield Committed(
                str((folder / f"{name}.png").relative_to(ROOT)), (command,), f"{name}.png"
            )


FIGURES = {each.file: each for each in (*OF_PAGES, *OF_TUTORIALS, *_panels())}
SCREENSHOTS = {"docs/images/studio-phone.png", "docs/images/studio-runs.png"}  # of a browser


@dataclass(frozen=True)
class Drawn:
    """A figure, and the settings it is drawn with, as those of a paper's column."""

    figure: Any
    settings: dict[str, Any]

    @classmethod
    def now(cls, figure: Any) -> "Drawn":
        known = {k: v for k, v in matplotlib.rcParams.items() if not k.startswith("backend")}
        return cls(figure, known)


def draw(committed: Committed) -> Drawn:
    """The figure as it is drawn today."""
    if committed.page:
        return _of_tutorial(ROOT / committed.page)
    if not committed.commands:
        return _testbed()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(PILOT, Path(folder) / "pilot-digits.json")
        (Path(folder) / "docs").mkdir()
        for name in ("round.json", "fleet.csv", "fleet.toml"):
            shutil.copy(ROOT / "docs" / name, Path(folder) / "docs")
        shutil.copytree(ROOT / "examples" / "devices", Path(folder) / "examples" / "devices")
        with chdir(folder):
            for command in committed.commands:
                figures = _run(command, committed.drawn)
    return figures[committed.drawn]


def _of_tutorial(page: Path) -> Drawn:
    """The figure that the Python on a page draws."""
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(io.StringIO()):
        for block in blocks:
            exec(block, names)
    return Drawn.now(names["figure"])


def _testbed() -> Drawn:
    """All uploads that were measured on a testbed."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from deployment_page import all_uploads

    with style.drawing():
        return Drawn.now(all_uploads().plot())


def _run(command: str, wanted: str) -> dict[str, Drawn]:
    """Runs a command in this process; the figures that it would have written, by name."""
    drawn: dict[str, Drawn] = {}

    def keep(figure: Any, path: str | Path) -> None:
        drawn[Path(path).name] = Drawn.now(figure)

    words, said = shlex.split(command), io.StringIO()
    target = words[words.index(">") + 1] if ">" in words else None
    argv = words[: words.index(">")] if target else words
    with (
        patch.object(sys, "argv", argv),
        patch.object(style, "save_figure", keep),
        redirect_stdout(said),
        redirect_stderr(io.StringIO()),
    ):
        try:
            if words[0] == "python":
                _python(words[1], lambda: wanted in drawn)
            else:
                fedcell()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{command}: ended with {end.code}") from end
    if target:
        Path(target).write_text(said.getvalue())
    return drawn


def _python(page: str, done: Callable[[], bool]) -> None:
    """Runs the Python of a page, one block after the other, until done."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL):
        if not done():
            exec(block, names)


# What a figure shows, in plain values.


def describe(drawn: Drawn) -> dict[str, Any]:
    """Size, texts, and of each panel its axes and data."""
    figure = drawn.figure
    with matplotlib.rc_context(drawn.settings):
        figure.draw_without_rendering()  # ticks are placed now
        return {
            "size": [round(float(inches), 3) for inches in figure.get_size_inches()],
            "texts": _texts(figure),
            "panels": [_panel(panel) for panel in figure.axes],
        }


def _texts(figure: Any) -> list[str]:
    legends = [*figure.legends, *(panel.get_legend() for panel in figure.axes)]
    found = [text.get_text() for text in figure.texts]
    for legend in legends:
        if legend is not None:
            found += [legend.get_title().get_text(), *(t.get_text() for t in legend.get_texts())]
    for panel in figure.axes:
        found += [panel.get_title(), *(text.get_text() for text in panel.texts)]
    return [text for text in found if text]


def _panel(panel: Any) -> dict[str, Any]:
    axes = {}
    for name, axis in (("x", panel.xaxis), ("y", panel.yaxis)):
        low, high = axis.get_view_interval()
        axes[name] = {
            "label": axis.get_label_text(),
            "scale": axis.get_scale(),
            "limits": _numbers([low, high]),
            "ticks": [
                label.get_text()
                for tick in axis.get_major_ticks()
                if min(low, high) <= tick.get_loc() <= max(low, high)
                for label in (tick.label1, tick.label2)
                if label.get_visible()
            ],
        }
    return {**axes, "marks": list(_marks(panel))}


def _marks(panel: Any) -> Iterator[dict[str, Any]]:
    """Lines, points, bands and bars; of areas the corners of their outlines."""
    from matplotlib.colors import to_hex
    from matplotlib.contour import ContourSet

    for line in panel.get_lines():
        looks = {"colour": to_hex(line.get_color()), "marker": str(line.get_marker())}
        yield {"kind": "line", **looks, **_places(line.get_xydata())}
    for each in panel.collections:
        colours = [*each.get_facecolor(), *each.get_edgecolor()]
        looks = {"kind": "area", "colour": to_hex(colours[0]) if len(colours) else ""}
        paths = [path.vertices for path in each.get_paths() if len(path.vertices)]
        if isinstance(each, ContourSet):  # where exactly its corners lie is a matter of rounding
            paths = [[part.min(0), part.max(0)] for part in paths]
        points = each.get_offsets() if each.get_offset_transform() == panel.transData else []
        if len(points):
            yield {**looks, "kind": "points", **_places(points)}
        else:
            yield {**looks, **_places([place for part in paths for place in part])}
    for patch_ in panel.patches:
        ends = patch_.get_transform() - panel.transData
        corners = patch_.get_path().transformed(ends).vertices
        yield {"kind": "bar", "colour": to_hex(patch_.get_facecolor()), **_places(corners)}
    for image in panel.images:
        yield {"kind": "image", "colour": "", "x": _numbers(image.get_array().ravel()), "y": []}


def _places(points: Any) -> dict[str, list[float | None]]:
    return {"x": _numbers(p[0] for p in points), "y": _numbers(p[1] for p in points)}


def _numbers(values: Any) -> list[float | None]:
    """With the digits that count; None where there is none."""
    return [float(f"{v:.{DIGITS}g}") if math.isfinite(v) else None for v in map(float, values)]


# What differs between what a file shows and what is drawn today.


def differences(kept: Any, now: Any, trained: bool = False) -> list[str]:
    """One sentence for each."""
    far = TRAINED if trained else NEAR
    found = []
    if kept["size"] != now["size"] and not trained:
        found.append(f"size: {kept['size']}, now {now['size']}")
    if not _alike_texts(kept["texts"], now["texts"], far):
        found.append(f"texts: {kept['texts']}, now {now['texts']}")
    if len(kept["panels"]) != len(now["panels"]):
        return [*found, f"{len(kept['panels'])} panels, now {len(now['panels'])}"]
    for i, (old, new) in enumerate(zip(kept["panels"], now["panels"], strict=True)):
        found += [f"panel {i}: {text}" for text in _panel_differences(old, new, far, trained)]
    return found


def _panel_differences(old: Any, new: Any, far: float, trained: bool) -> Iterator[str]:
    for name in "xy":
        a, b = old[name], new[name]
        for what in ("label", "scale"):
            if a[what] != b[what]:
                yield f"{what} of {name}: {a[what]}, now {b[what]}"
        ticks = a["ticks"], b["ticks"]
        if not _same_ticks(*ticks) if trained else ticks[0] != ticks[1]:
            yield f"ticks of {name}: {ticks[0]}, now {ticks[1]}"
        if not _near(a["limits"], b["limits"], b, far):
            yield f"limits of {name}: {a['limits']}, now {b['limits']}"
    if len(old["marks"]) != len(new["marks"]):
        yield f"{len(old['marks'])} lines, bands and bars, now {len(new['marks'])}"
        return
    for j, (a, b) in enumerate(zip(old["marks"], new["marks"], strict=True)):
        looks = [{k: v for k, v in mark.items() if k not in "xy"} for mark in (a, b)]
        if looks[0] != looks[1]:
            yield f"mark {j}: {looks[0]}, now {looks[1]}"
        for name in "xy":
            pair = [_ends(mark[name]) if trained else mark[name] for mark in (a, b)]
            if not _near(*pair, new[name], far):
                yield f"mark {j}, {looks[1]}: other places in {name}"


def _same_ticks(a: list[str], b: list[str]) -> bool:
    """But for those at the ends, which are there or not as limits differ a little."""
    return set(a[1:-1]) <= set(b) and set(b[1:-1]) <= set(a)


def _ends(values: list[float | None]) -> list[float | None]:
    known = [v for v in values if v is not None]
    return [min(known), max(known)] if known else []


def _near(a: list[float | None], b: list[float | None], axis: Any, far: float) -> bool:
    """Whether places are the same to the eye: to a part of what the axis shows."""
    low, high = (_scaled(v, axis) for v in axis["limits"])
    return len(a) == len(b) and all(
        (p is None) == (q is None)
        and (p is None or abs(_scaled(p, axis) - _scaled(q, axis)) <= far * abs(high - low))
        for p, q in zip(a, b, strict=True)
    )


def _scaled(value: Any, axis: Any) -> float:
    return math.log10(max(value, 1e-300)) if axis["scale"] == "log" else float(value)


def _alike_texts(a: list[str], b: list[str], far: float) -> bool:
    """The same words, and numbers that are near."""
    words = [[re.sub(NUMBER, "#", text) for text in texts] for texts in (a, b)]
    numbers = [[float(n) for text in texts for n in re.findall(NUMBER, text)] for texts in (a, b)]
    return words[0] == words[1] and all(
        math.isclose(p, q, rel_tol=far) for p, q in zip(*numbers, strict=True)
    )


# Files that carry what they show.


def write(drawn: Drawn, file: Path) -> None:
    """Writes a picture; the same figure gives the same bytes."""
    packed = zlib.compress(json.dumps(describe(drawn)).encode(), 9)
    text = MARK + base64.b64encode(packed).decode() + ";"
    if file.suffix == ".pdf":
        metadata: dict[str, Any] = {"Keywords": text, "CreationDate": None}
    else:
        metadata = {"Comment": text}
    with matplotlib.rc_context(drawn.settings):
        drawn.figure.savefig(file, dpi=style.DPI, metadata=metadata)


def read(file: Path) -> Any:
    """What a picture shows; None if it does not say."""
    found = re.search(MARK.encode() + rb"([A-Za-z0-9+/=]+);", file.read_bytes())
    return json.loads(zlib.decompress(base64.b64decode(found[1]))) if found else None


def stale(committed: Committed, drawn: Drawn) -> list[str]:
    """In what a file differs from what is drawn today."""
    file = ROOT / committed.file
    kept = read(file) if file.exists() else None
    if kept is None:
        return ["does not say what it shows: it was not drawn by docs/figures.py"]
    return differences(kept, describe(drawn), committed.trained)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", help="docs/images/cost-cnn.png, ...; default: all")
    parser.add_argument("--check", action="store_true", help="only say which are stale")
    options = parser.parse_args()
    if unknown := set(options.files) - set(FIGURES):
        parser.error(f"{', '.join(sorted(unknown))}: choose of {', '.join(FIGURES)}")
    behind = 0
    # Tutorials need extras and train for a minute: their figures are drawn where they are named.
    for name in options.files or [name for name, each in FIGURES.items() if not each.page]:
        drawn = draw(FIGURES[name])
        faults = stale(FIGURES[name], drawn)
        behind += bool(faults)
        if faults and not options.check:
            write(drawn, ROOT / name)
        said = "stale" if options.check else "drawn again"
        print(f"{name}: {said if faults else 'up to date'}", *faults[:5], sep="\n    ")
    sys.exit(1 if options.check and behind else 0)


if __name__ == "__main__":
    main()
