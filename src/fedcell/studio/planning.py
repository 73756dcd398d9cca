"""Answers of the planning view: the plan of `plan_training`, with what the page draws of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.checksums import checksum_of
from fedcell.core.files.formats import as_json
from fedcell.learning.setup import prepare_training
from fedcell.network.policies.names import NAMED
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.planning.choice.planfile import is_plan_file, load_plan
from fedcell.planning.costs.memory import (
    DRAFT,
    PriceMemory,
    StoppedError,
    UnknownSurfaceError,
    keep_going,
    remembering,
)
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.planning.planner import draft_plans, plan_training
from fedcell.scenario.identity import may_change_pilot, pilot_identity
from fedcell.scenario.load import SHIPPED, load_scenario
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.compute import Compute

from .asked import Asked, asked_of, changed
from .keys import described_keys
from .pictures import pictures, surface

MOST_DEVICES = 1000  # of a table that a page gets
DRAFT_FROM = 0.2  # [s] that the last plan took, from which a draft is drawn before the next


@dataclass(frozen=True)
class World:
    """What the page plans: a scenario, its name on the command line, and where its pilot is."""

    scenario: Scenario
    name: str
    pilot_file: Path
    start: TrainingPlan | None = None  # the plan that the page begins with

    @property
    def is_named(self) -> bool:
        """Tell whether the name is enough to load the scenario; a plan may be of another one."""
        if self.name not in SHIPPED and not Path(self.name).is_file():
            return False
        return self.start is None or load_scenario(self.name) == self.scenario

    @classmethod
    def of(cls, named: str, pilot: Path | None = None) -> "World":
        """Return the world of a scenario's file or name, or of a plan's file."""
        path = Path(named)
        if path.suffix.lower() == ".json" and path.is_file() and is_plan_file(path):
            plan = load_plan(path)
            if plan.scenario is None:
                raise BadFile(
                    f"{named}: the plan has measured gains, which its file does not hold: name the "
                    "scenario instead"
                )
            beside = path.parent / f"pilot-{Path(plan.name).stem}.json"
            return cls(plan.scenario, plan.name, pilot or beside, plan)
        folder = path.parent if path.is_file() else Path()
        return cls(load_scenario(named), named, pilot or folder / f"pilot-{path.stem}.json")


class PlanningView:
    """Answers questions about one world, one plan at a time; the newest question of a page wins."""

    def __init__(self, world: World, data_dir: Path | None = None) -> None:
        self.world = world
        self.compute = Compute(data_dir=data_dir)
        self.pilots: dict[Path, tuple[float, Pilot]] = {}  # time of the file, and what it holds
        self._memory, self._drafts = PriceMemory(), PriceMemory(nodes=DRAFT)
        self._one, self._numbers = Lock(), Lock()
        self._newest: dict[str, int] = {}  # last question of each page
        self._took = 0.0  # [s] that the last plan took

    def describe(self) -> dict[str, Any]:
        """Return what the page shows before the first answer: keys, policies and the pilot."""
        scenario, start = self.world.scenario, self.world.start
        goal = scenario.goal()
        begin: dict[str, Any] = {}
        if start is not None:
            limits = start.limits.given()
            begin = {"minimise": start.minimised, "seed": start.seed} | limits
            begin |= {"policy": start.policy} if start.policy in NAMED else {}
            if self.pilot(Asked()) is None and isinstance(start.law, GivenLaw):
                begin["law"] = {n: v for n, v in start.law.to_dict().items() if v is not None}
        return {
            "name": self.world.name,
            "tables": described_keys(scenario),
            "policies": list(NAMED),
            "trains": scenario.learning is not None,
            "target": None if goal is None else goal.to_dict(),
            "start": begin,
            "pilot_file": str(self.world.pilot_file),
        }

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a question of a page: {"asked", "page", "number", "draft"}.

        With `draft`, an unknown surface that may take long is answered by a coarse picture, which
        says so and chooses no plan.
        """
        asked = asked_of(body.get("asked"))
        page, number = str(body.get("page"))[:40], body.get("number", 0)
        if type(number) is not int:
            raise BadInput("number: expected a whole number")
        with self._numbers:
            self._newest[page] = max(number, self._newest.get(page, 0))
            while len(self._newest) > 100:  # pages that were closed
                self._newest.pop(next(iter(self._newest)))
        stop = lambda: self._newest.get(page, 0) > number
        hurry = bool(body.get("draft")) and self._took > DRAFT_FROM
        try:
            try:
                return self._exact(asked, stop, known_only=hurry)
            except UnknownSurfaceError:
                return {"draft": True, "surface": self._draft(asked, stop)}
        except StoppedError:
            return {"superseded": True}

    def _exact(self, asked: Asked, stop: Callable[[], bool], known_only: bool) -> dict[str, Any]:
        """Return the plan with its pictures; with `known_only`, from a surface in memory."""
        with self._one, remembering(self._memory, stop, known_only):
            keep_going()
            begin = time.perf_counter()
            plan = self.plan(asked)
            found = pictures(plan, asked.seed)
            took = time.perf_counter() - begin
        if not known_only:
            self._took = took
        return {"draft": False, "plan": _shown(plan), "seconds": took} | found

    def plan(self, asked: Asked) -> TrainingPlan:
        """Return the plan for a question, as `plan_training` and the command line make it."""
        scenario, source, target = self.source(asked)
        return plan_training(
            scenario,
            source,
            target=target,
            region=asked.region,
            limits=asked.limits,
            seed=asked.seed,
            compute=self.compute,
        ).named(self.world.name)

    def _draft(self, asked: Asked, stop: Callable[[], bool]) -> dict[str, Any]:
        scenario, source, target = self.source(asked)
        with remembering(self._drafts, stop):
            grid = draft_plans(
                scenario,
                source,
                target=target,
                region=asked.region,
                seed=asked.seed,
                compute=self.compute,
            )
            return surface(grid) | {"allowed": []}

    def source(self, asked: Asked) -> tuple[Scenario, Pilot | GivenLaw, Any]:
        """Return the changed scenario, the pilot or law of its rounds, and the target."""
        scenario = changed(self.world.scenario, asked.changes)
        law = asked.given_law
        if law is not None:
            return scenario, law, asked.goal(None, scenario)
        pilot = self.pilot(asked)
        if pilot is None:
            raise BadInput(
                f"how many rounds training takes is not known here: {self.pilot_path(asked)} would "
                "hold the pilot of this question; run one, or give a law by hand"
            )
        return scenario, pilot, asked.goal(pilot.target, scenario)

    def pilot_path(self, asked: Asked) -> Path:
        """Return the file of the pilot for a question: the world's own, or, where its keys change
        what is learnt, another one beside it that is named by the changes."""
        own = self.world.pilot_file
        before, now = self.world.scenario, changed(self.world.scenario, asked.changes)
        may = any(may_change_pilot(world, k) for k in asked.changes for world in (before, now))
        if not may or before.learning is None:
            return own
        identity = self._identity(now, asked.seed)
        if identity == self._identity(before, asked.seed):
            return own
        return own.with_name(f"{own.stem}-{digest(identity)}.json")

    def _identity(self, scenario: Scenario, seed: int) -> dict[str, Any]:
        setup = prepare_training(scenario, seed, self.compute.data_path)
        return pilot_identity(setup.scenario, setup.fingerprint)

    def pilot(self, asked: Asked) -> Pilot | None:
        """Return the pilot for a question, read again where its file has changed; None: no file."""
        path = self.pilot_path(asked)
        try:
            stamp = path.stat().st_mtime
        except OSError:
            return None
        known = self.pilots.get(path)
        if known is None or known[0] != stamp:
            self.pilots[path] = known = stamp, load_pilot(path)
        return known[1]


def _shown(plan: TrainingPlan) -> dict[str, Any]:
    """Return a plan as plain values; of a long table, the devices that spend most."""
    if len(plan.devices) > MOST_DEVICES:
        order = sorted(plan.devices, key=lambda device: -device.energy)[:MOST_DEVICES]
        plan = replace(plan, devices=tuple(order))
    return plan.to_dict()


def digest(value: Any) -> str:
    """Return eight characters that stand for plain values."""
    return checksum_of(as_json(value).encode())[:8]
