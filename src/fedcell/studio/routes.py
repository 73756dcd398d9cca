"""What the page may ask of the server, by name: plain values in, plain values out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from fedcell.core.version import __version__

from .asked import asked_of
from .pilots import PilotJobs
from .planning import PlanningView, World
from .runs import RunsView
from .takeaway import Download, take

Body = dict[str, Any]
Answer = dict[str, Any] | Download


class Studio:
    """The views of one page: a world to plan, if there is one, and folders of runs."""

    def __init__(
        self, world: World | None, folders: tuple[Path, ...], data_dir: Path | None = None
    ) -> None:
        self.planning = None if world is None else PlanningView(world, data_dir)
        self.pilots = None if self.planning is None else PilotJobs(self.planning)
        self.runs = RunsView(folders)
        self._drawing = Lock()  # matplotlib draws one figure at a time

    @property
    def routes(self) -> Mapping[str, Callable[[Body], Answer]]:
        """Return the functions that answer a page, by name."""
        known: dict[str, Callable[[Body], Answer]] = {
            "start": self.start,
            "runs": self.runs.listing,
            "run": self.runs.one,
            "figure": self._figure,
        }
        if self.planning is not None and self.pilots is not None:
            known |= {"view": self.planning.answer, "take": self._take, "pilot": self.pilots.answer}
        return known

    def start(self, body: Body) -> Answer:  # noqa: ARG002
        """Return what the page begins with."""
        planning = None if self.planning is None else self.planning.describe()
        return {"version": __version__, "planning": planning}

    def close(self) -> None:
        """End what the page has started."""
        if self.pilots is not None:
            self.pilots.close()

    def _take(self, body: Body) -> Answer:
        assert self.planning is not None
        with self._drawing:
            return take(self.planning, asked_of(body.get("asked")), str(body.get("what")))

    def _figure(self, body: Body) -> Answer:
        with self._drawing:
            return Download(self.runs.figure(body), "image/svg+xml", "figure.svg")
