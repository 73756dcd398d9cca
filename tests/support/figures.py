"""What is wrong with a figure, found by measuring it: marks cut off or outside the axes, missing
tick labels and axis labels, texts that leave the figure or lie on each other or on the data."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.contour import ContourSet
from matplotlib.markers import MarkerStyle
from matplotlib.transforms import Bbox

SLACK = 0.75  # pixels that rounding may take
COVERED = 0.15  # part of a line that a legend or an annotation may lie on
DENSE = 2.0  # pixels between the points that stand for a line
DIMENSIONS = re.compile(r"\b(time|duration|energy|cost|upload|share of the band|error)\b")
COUNTS = re.compile(r"(client|round|device|class|\d+ client|local)s?\b")
UNIT = re.compile(r"\[[^\]]+\]|\bover\b|\bratio\b")


@dataclass(frozen=True)
class Mark:
    """Something that shows data: its points in pixels, and how far each reaches."""

    name: str
    points: Any  # (n, 2)
    bound: tuple[bool, bool]  # whether x, and y, are data: a level line has only one of them
    clipped: bool
    radius: float = 0.0  # of a marker
    joined: bool | None = False  # a line, not single points; None: a line that is not seen
    reaches_zero: Any = field(default=None)  # points of a band at or below 0 on a logarithmic axis


def faults(figure: Any) -> list[str]:
    """One sentence for each fault of a figure; none if it is fine."""
    figure.draw_without_rendering()
    found: list[str] = []
    for place, panel in enumerate(figure.axes):
        name = f"panel {place}"
        marks = list(marks_of(panel))
        found += [f"{name}: {fault}" for fault in _outside(panel, marks)]
        for axis in (panel.xaxis, panel.yaxis):
            found += [f"{name}: {fault}" for fault in _axis_faults(panel, axis)]
        found += [f"{name}: {fault}" for fault in _covered(figure, panel, marks)]
    return found + _text_faults(figure)


def marks_of(panel: Any) -> Iterator[Mark]:
    """All that shows data in a panel."""
    per_point = panel.figure.dpi / 72
    for line in panel.get_lines():
        xy = np.ma.filled(np.ma.masked_invalid(line.get_xydata()), np.nan).astype(float)
        if not len(xy):
            continue
        drawn = line.get_marker() not in (None, "None", "", " ")
        radius = _marker_reach(line) * per_point if drawn else 0.0
        joined = _is_joined(line) if drawn or np.isfinite(xy).all(1).sum() != 1 else None
        yield _mark(f"line {line.get_label()!r}", panel, line, xy, radius=radius, joined=joined)
    for each in panel.collections:
        if isinstance(each, PathCollection):
            sizes = np.sqrt(np.max(each.get_sizes())) / 2 * per_point
            offsets = np.ma.filled(each.get_offsets(), np.nan)
            move = each.get_offset_transform()
            yield _mark(f"points {each.get_label()!r}", panel, each, offsets, move, radius=sizes)
        elif isinstance(each, PolyCollection | LineCollection) and not isinstance(each, ContourSet):
            kind = "band" if isinstance(each, PolyCollection) else "error bar"
            corners = [path.vertices for path in each.get_paths()]
            if corners:
                yield _mark(f"{kind} {each.get_label()!r}", panel, each, np.concatenate(corners))
    for patch in panel.patches:
        corners = patch.get_path().vertices
        move = patch.get_transform()
        yield _mark(f"bar {patch.get_label()!r}", panel, patch, corners, move)


def _mark(name: str, panel: Any, artist: Any, xy: Any, move: Any = None, **more: Any) -> Mark:
    move = artist.get_transform() if move is None else move
    bound = move.contains_branch_seperately(panel.transData)
    zero = np.zeros(len(xy), bool)
    for axis, scale in enumerate((panel.get_xscale(), panel.get_yscale())):
        if scale == "log" and not name.startswith("line") and bound[axis]:
            zero |= ~(xy[:, axis] > 0)
    xy = xy[np.isfinite(xy).all(1)] if not zero.any() else xy
    zero = zero[: len(xy)] if zero.any() else np.zeros(len(xy), bool)
    return Mark(name, move.transform(xy), bound, artist.get_clip_on(), reaches_zero=zero, **more)


def _marker_reach(line: Any) -> float:
    """How far a marker reaches from its centre, its edge included [points]."""
    style = MarkerStyle(line.get_marker())
    path = style.get_path().transformed(style.get_transform())
    size = np.abs(path.vertices).max() * line.get_markersize()
    return float(size + line.get_markeredgewidth() / 2)


def _is_joined(line: Any) -> bool:
    return line.get_linestyle() not in ("None", "", " ") and len(line.get_xdata()) > 1


def _outside(panel: Any, marks: Sequence[Mark]) -> Iterator[str]:
    """Marks whose points leave the axes, and those of which the axes or, where nothing clips them,
    the figure cut off a part."""
    for mark in marks:
        if mark.joined is None:
            yield f"{mark.name}: one point without a marker is not seen"
        box = panel.bbox if mark.clipped else panel.figure.bbox
        ends = ((box.x0, box.x1), (box.y0, box.y1))
        inside = panel.bbox.intervalx, panel.bbox.intervaly
        for axis, (low, high) in enumerate(ends):
            if not mark.bound[axis]:
                continue
            at = mark.points[~mark.reaches_zero, axis]
            first, last = inside[axis]
            beyond = (at < first - SLACK) | (at > last + SLACK)
            if beyond.any():
                yield f"{mark.name}: {beyond.sum()} points lie outside in {'xy'[axis]}"
            cut = (at - mark.radius < low - SLACK) | (at + mark.radius > high + SLACK)
            if (cut & ~beyond).any():
                yield f"{mark.name}: {(cut & ~beyond).sum()} markers are cut in {'xy'[axis]}"


def labels_in_view(axis: Any) -> list[Any]:
    """The tick labels that are seen."""
    low, high = sorted(axis.get_view_interval())
    wide = 1e-9 * (high - low)
    return [
        tick.label1 if tick.label1.get_visible() else tick.label2
        for tick in axis.get_major_ticks()
        if low - wide <= tick.get_loc() <= high + wide
        and (tick.label1.get_visible() or tick.label2.get_visible())
        and (tick.label1 if tick.label1.get_visible() else tick.label2).get_text()
    ]


def number(text: str) -> float | None:
    """What a tick label says, if that is a number."""
    plain = re.sub(r"\$|\\mathdefault|[{}]", "", text).replace("\N{MINUS SIGN}", "-")
    if power := re.fullmatch(r"(-?)10\^(-?\d+)", plain):
        return float(f"{power[1]}1e{power[2]}")
    try:
        return float(plain)
    except ValueError:
        return None


def is_number(text: str) -> bool:
    return number(text) is not None


def _siblings(panel: Any, axis: Axis) -> list[Any]:
    group = panel.get_shared_x_axes() if axis is panel.xaxis else panel.get_shared_y_axes()
    return [other for other in group.get_siblings(panel) if other is not panel]


def _axis_faults(panel: Any, axis: Any) -> Iterator[str]:
    """Tick labels that say too little, and a missing label or unit."""
    which = axis.axis_name
    if panel.get_label() == "<colorbar>" and not axis.get_label_text():
        return
    texts = [label.get_text() for label in labels_in_view(axis)]
    others = [getattr(other, f"{which}axis") for other in _siblings(panel, axis)]
    shown_elsewhere = any(labels_in_view(other) for other in others)
    numbers = [number(text) for text in texts]
    values = [value for value in numbers if value is not None]
    counted = re.match(r"\d+ clients", axis.get_label_text())
    if not texts and not shown_elsewhere and not counted:
        yield f"the {which} axis has no tick labels"
    elif texts and len(values) == len(texts) == 1 and not _is_counting(axis):
        yield f"the {which} axis has one number only: {texts[0]}"
    if len(set(texts)) < len(texts):
        yield f"the {which} axis says the same twice: {texts}"
    if COUNTS.match(axis.get_label_text()) and any(v % 1 for v in values):
        yield f"the {which} axis counts, in parts: {texts}"
    label = axis.get_label_text()
    if not label:
        every = [texts, *([t.get_text() for t in labels_in_view(other)] for other in others)]
        named = any(some and not any(map(is_number, some)) for some in every)
        if not named and not any(other.get_label_text() for other in others):
            yield f"the {which} axis has no label"
    elif DIMENSIONS.search(label) and not UNIT.search(label):
        yield f"the {which} axis has no unit: {label!r}"


def _is_counting(axis: Any) -> bool:
    """Whether an axis numbers one thing, such as the one client that there is."""
    low, high = sorted(axis.get_view_interval())
    return high - low <= 1 and bool(COUNTS.match(axis.get_label_text()))


def _texts(figure: Any) -> list[Any]:
    """All texts that are seen, tick labels outside the view left out."""
    found = list(figure.texts)  # the figure's title among them
    for legend in [*figure.legends, *(panel.get_legend() for panel in figure.axes)]:
        if legend is not None:
            found += [*legend.get_texts(), legend.get_title()]
    for panel in figure.axes:
        found += [*panel.texts, panel.title]
        for axis in (panel.xaxis, panel.yaxis):
            found += [axis.label, axis.offsetText, *labels_in_view(axis)]
    return [t for t in found if t is not None and t.get_visible() and t.get_text().strip()]


def _text_faults(figure: Any) -> list[str]:
    """Texts that leave the figure, lie across the border of their axes, or on each other."""
    texts = _texts(figure)
    boxes = [text.get_window_extent() for text in texts]
    found = [
        f"text {text.get_text()!r} leaves the figure"
        for text, box in zip(texts, boxes, strict=True)
        if not _inside(box, figure.bbox)
    ]
    for panel in figure.axes:
        for text in (text for text in panel.texts if text.get_visible() and text.get_text()):
            box, frame = text.get_window_extent(), panel.bbox
            low, high = box.y0 - frame.y0, box.y1 - frame.y0
            if low < -SLACK and high > SLACK:
                found.append(f"text {text.get_text()!r} lies across the lower border of its axes")
    for (one, a), (other, b) in combinations(zip(texts, boxes, strict=True), 2):
        if one.get_rotation() % 90 or other.get_rotation() % 90:
            continue  # the box of a slanted text is larger than the text
        if _overlap(a, b):
            found.append(f"texts {one.get_text()!r} and {other.get_text()!r} overlap")
    return found


def _inside(box: Bbox, outer: Bbox) -> bool:
    return bool(
        box.x0 >= outer.x0 - SLACK
        and box.y0 >= outer.y0 - SLACK
        and box.x1 <= outer.x1 + SLACK
        and box.y1 <= outer.y1 + SLACK
    )


def _overlap(a: Bbox, b: Bbox) -> bool:
    wide = min(a.x1, b.x1) - max(a.x0, b.x0)
    high = min(a.y1, b.y1) - max(a.y0, b.y0)
    return bool(wide > SLACK and high > SLACK)


def _covered(figure: Any, panel: Any, marks: Sequence[Mark]) -> Iterator[str]:
    """Data that lies under a legend or an annotation."""
    legends = [legend for legend in (panel.get_legend(), *figure.legends) if legend is not None]
    covers = [("legend", legend.get_window_extent()) for legend in legends]
    covers += [(f"text {text.get_text()!r}", text.get_window_extent()) for text in panel.texts]
    for what, box in covers:
        for mark in marks:
            if not all(mark.bound) or mark.name.startswith("band"):
                continue
            points = _dense(mark.points) if mark.joined else mark.points
            hidden = (
                (points[:, 0] > box.x0)
                & (points[:, 0] < box.x1)
                & (points[:, 1] > box.y0)
                & (points[:, 1] < box.y1)
            )
            if hidden.mean() > (COVERED if mark.joined else 0):
                yield f"{what} covers {hidden.mean():.0%} of {mark.name}"


def _dense(points: Any) -> Any:
    """Points along a line, a few pixels from each other."""
    parts = []
    for start, end in pairwise(points):
        count = int(np.hypot(*(end - start)) / DENSE) + 1
        parts.append(start + (end - start) * np.linspace(0, 1, min(count, 2000))[:, None])
    return np.concatenate(parts)
