"""The file of a plan: what is planned for which world, to be run and compared with. Format 3."""

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedcell.core.checksums import check_seal, note_unsealed, sealed
from fedcell.core.errors import BadFile, BadInput, FedcellWarning
from fedcell.core.files import as_json, check_stamp, naming, read_tables, stamp, write_text
from fedcell.core.schema import decode
from fedcell.scenario.load import scenario_of
from fedcell.scenario.save import to_tables

from .outcome import TOTALS
from .pilotfile import LawCoefficients
from .plan import TrainingPlan
from .planrows import PlanFile
from .unit_costs import UnitCostEstimate

FORMAT = 3
WAY_OUT = "plan again with `plan_training`"


def plan_tables(plan: TrainingPlan) -> dict[str, Any]:
    """A plan in plain values. The scenario is as it was declared, less measured gains, which are
    a file of their own: it must then be named again."""
    scenario = plan.scenario
    kept = None if scenario is None or scenario.cell.gains is not None else to_tables(scenario)
    return stamp("plan", FORMAT) | {
        "name": plan.name,
        "policy": plan.policy,
        "target": None if plan.target is None else asdict(plan.target),
        "minimised": plan.minimised,
        "seed": plan.seed,
        "limits": plan.limits.given(),
        "law": plan.law.to_dict() | ({"form": plan.law_form} if plan.law_form else {}),
        **{n: asdict(getattr(plan, n)) for n in ("cohort", "local_steps", *TOTALS)},
        "paper": asdict(plan.paper),
        "policies": [
            {"policy": policy, **{m: asdict(totals[m]) for m in TOTALS}}
            for policy, totals in plan.policies.items()
        ],
        "unit_costs": [asdict(row) for row in plan.unit_costs],
        "sensitivity": [asdict(row) for row in plan.sensitivity],
        "bandwidth": plan.bandwidth,
        "chances": dict(plan.chances),
        "notes": list(plan.notes),
        "devices": [asdict(device) for device in plan.devices],
        "scenario": kept,
        **{n: name for n in ("learner", "server") if (name := getattr(plan, n)) is not None},
        "identity": None if plan.identity is None else dict(plan.identity),
    }


def save_plan(path: Path, plan: TrainingPlan) -> None:
    """Writes the file, unless it holds something else than a plan."""
    if path.exists() and not is_plan_file(path):
        raise BadFile(f"{path}: holds something else than a plan: choose another `path`")
    write_text(path, as_json(sealed(plan_tables(plan))))


def is_plan_file(path: Path) -> bool:
    """Whether a file is a plan, of whatever version."""
    content = read_tables(path)
    return content.get("what", "plan") == "plan" and {"fedcell", "cohort"} <= content.keys()


def load_plan(path: Path) -> TrainingPlan:
    """A plan from its file."""
    try:
        content = read_tables(path)
    except BadFile as error:
        raise BadFile(f"{error}; {WAY_OUT}") from error
    with naming(path):
        check_stamp(content, "plan", [FORMAT], WAY_OUT)
        try:
            file = decode(PlanFile, content)
            given = {n: v for n, v in file.law.items() if n != "form"}
            law = decode(LawCoefficients, given).law()
        except BadInput as error:
            raise BadInput(*(f"{fault}; {WAY_OUT}" for fault in error.faults)) from error
        scenario = None if file.scenario is None else scenario_of(file.scenario, path.parent)
        checked = check_seal(content, WAY_OUT)
        _note_missing(path, file, checked)
        totals = {m: getattr(file, m).estimate() for m in TOTALS}
        policies = {
            row.policy: {m: getattr(row, m).estimate() for m in TOTALS} for row in file.policies
        }
        return TrainingPlan(
            name=file.name,
            scenario=scenario,
            policy=file.policy,
            target=None if file.target is None else file.target.target(),
            minimised=file.minimised,
            limits=file.limits.limits(),
            law=law,
            law_form=file.law.get("form"),
            seed=file.seed,
            cohort=file.cohort.estimate(),
            local_steps=file.local_steps.estimate(),
            **totals,
            paper=file.paper.choice(),
            policies=policies | {file.policy: totals},
            unit_costs=tuple(
                UnitCostEstimate(way=row.way, costs=row.costs.unit_costs(), error=row.error)
                for row in file.unit_costs
            ),
            sensitivity=tuple(row.what_if() for row in file.sensitivity),
            bandwidth=file.bandwidth,
            chances=dict(file.chances),
            notes=file.notes,
            devices=tuple(row.device() for row in file.devices),
            learner=file.learner,
            server=file.server,
            identity=file.identity,
        )


def _note_missing(path: Path, file: PlanFile, checked: bool) -> None:
    """Says what a file of an older fedcell lacks, in one note."""
    if file.identity is None:
        warnings.warn(
            f"{path}: has no fingerprint of data, owners and fleet (an older fedcell wrote it): "
            f"whether a run is the one that was planned is not checked; {WAY_OUT}",
            FedcellWarning,
            stacklevel=4,
        )
    elif not checked:
        note_unsealed([path])
