"""The file of a plan: what is planned for which world, to be run and compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, isfinite
from pathlib import Path
from typing import Any

from fedcell import __version__
from fedcell.core.errors import BadInput
from fedcell.network.compare import Row
from fedcell.scenario.load import naming, read_tables, scenario_of
from fedcell.scenario.tables import Scenario
from fedcell.simulation.folder import declared

from .fit import Fit
from .grid import bound_of
from .limits import Limits
from .plan import Proposal, Range
from .theory import Bound

FORMAT = 1
TOTALS = ("rounds", "seconds", "joules", "cost")


def plan_row(
    scenario: Scenario,
    name: str,
    policy: str,
    target: float | None,
    law: Bound | Fit,
    limits: Limits,
    proposal: Proposal,
    policies: Mapping[str, Mapping[str, Range]],
) -> Row:
    """A plan in plain values, as --json prints it and `fedcell run --plan` reads it. The
    scenario is as it was declared, `policies` what the plan takes under each."""
    bound = asdict(bound_of(law))
    asked = {k: v for k, v in asdict(limits).items() if v is True or (v and isfinite(v))}
    row: Row = {"fedcell": __version__, "format": FORMAT, "scenario": name, "policy": policy}
    row |= {"target": target, "law": {"form": law.form, **bound} if isinstance(law, Fit) else bound}
    row["limits"] = asked
    for measure in ("cohort", "local_steps", *TOTALS):
        row[measure] = asdict(getattr(proposal, measure))
    row |= {"paper": dict(proposal.paper), "notes": list(proposal.notes)}
    row["policies"] = [
        {"policy": other, **{measure: asdict(taken[measure]) for measure in TOTALS}}
        for other, taken in policies.items()
    ]
    # Gains are a file of their own, which a plan cannot carry: the scenario must be named again.
    row["world"] = declared(scenario) if scenario.cell.gains is None else None
    return row


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What a plan says to a run."""

    name: str
    policy: str
    world: Scenario | None
    target: float | None
    cohort: int
    local_steps: int
    predicted: Mapping[str, Mapping[str, Mapping[str, float]]]  # policy, measure: value, low, high

    @property
    def rounds(self) -> int:
        """Rounds after which a run gives up: half as many again as it may take, or thrice what a
        law by hand says."""
        rounds = self.predicted[self.policy]["rounds"]
        return min(10**7, ceil(max(1.5 * rounds["high"], 3 * rounds["low"])))

    def of(self, scenario: Scenario) -> Scenario:
        """The scenario, run as planned: evaluated in every round, as the law counts them."""
        learning = {} if scenario.learning is None else {"learning": {"evaluate_every": 1}}
        world = scenario.planned(self.cohort, self.local_steps)
        return world.using(plan={"rounds": self.rounds}, **learning)

    def changed(self, scenario: Scenario, target: float | None) -> list[str]:
        """In what a run is not the one that was planned."""
        found = [] if target == self.target else ["another target"]
        if self.world is not None:
            now, then = declared(scenario), declared(self.of(self.world))
            found += [name for name in now if now[name] != then.get(name)]
        return found


def is_plan(content: Mapping[str, Any]) -> bool:
    return content.get("format") == FORMAT and "cohort" in content


def load_plan(path: str | Path) -> Planned:
    """A plan from the file that `fedcell plan --out` writes."""
    path = Path(path)
    content = read_tables(path)
    with naming(path):
        if not is_plan(content):
            raise BadInput("is not a plan of this version of fedcell: make one by fedcell plan")
        try:
            rows = [content, *content["policies"]]  # its own policy has the plan's own numbers
            predicted = {str(row["policy"]): _ranges(row) for row in reversed(rows)}
            target = content["target"]
            cohort, steps = (int(content[name]["value"]) for name in ("cohort", "local_steps"))
            if min(cohort, steps) < 1:
                raise ValueError(f"cohort {cohort}, local_steps {steps}")
            world = content.get("world")
            return Planned(
                name=str(content["scenario"]),
                policy=str(content["policy"]),
                world=None if world is None else scenario_of(world, path.parent),
                target=None if target is None else float(target),
                cohort=cohort,
                local_steps=steps,
                predicted=predicted,
            )
        except BadInput:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise BadInput(f"is damaged ({type(error).__name__}: {error}): plan again") from error


def _ranges(row: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    found = {
        measure: {edge: float(row[measure][edge]) for edge in ("value", "low", "high")}
        for measure in TOTALS
    }
    for measure, p in found.items():
        if not 0 < p["low"] <= p["value"] <= p["high"] < 1e15:
            raise ValueError(f"{measure} from {p['low']:g} to {p['high']:g}, {p['value']:g}")
    return found


def outcome_rows(planned: Planned, policies: Sequence[Row]) -> list[Row]:
    """What a run took beside what was predicted, for each policy that reached the target."""
    return [
        {"policy": row["policy"]}
        | {
            measure: _beside(planned.predicted[row["policy"]][measure], row["to_target"][measure])
            for measure in TOTALS
        }
        for row in policies
        if row["to_target"] and row["policy"] in planned.predicted
    ]


def _beside(predicted: Mapping[str, float], actual: float) -> Row:
    """Whether it is inside is null where the plan was made without a pilot."""
    inside: bool | None = predicted["low"] <= actual <= predicted["high"]
    if predicted["low"] == predicted["high"]:
        inside = None
    return {**predicted, "actual": float(actual), "inside": inside}
