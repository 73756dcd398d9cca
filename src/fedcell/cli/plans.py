"""Plan files on the command line: their scenario, policy, learner, and adapting them."""

import warnings
from dataclasses import dataclass
from pathlib import Path

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.network.policies.names import BUILT_IN
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.planning.setting import Objective
from fedcell.scenario.load import SHIPPED, load_scenario
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target

from .progress import progress_bars


@dataclass(frozen=True)
class AdaptiveOptions:
    """Options of a run that need --adaptive; None where not given."""

    pilot: Path | None
    every: int | None  # rounds between two decisions
    minimise: Objective | None
    clients: tuple[int, int] | None
    steps: tuple[int, int] | None

    def given(self) -> list[str]:
        """Return the names of the options that were given."""
        return [f"--{name}" for name, value in vars(self).items() if value is not None]


def check_own_code(planned: TrainingPlan | None, file: Path | None, learner: str | None) -> None:
    """Refuse a plan for a learner or server of the user unless it is given again: a file never
    names code to run."""
    if planned and planned.server:
        raise BadInput(
            f"{file}: was planned with a server of your own, {planned.server}: run it from Python"
        )
    if planned and planned.learner and learner is None:
        raise BadInput(
            f"{file}: was planned for the learner {planned.learner}: give --learner "
            f"{planned.learner} if you trust it"
        )


def planned_world(
    name: str | None, planned: TrainingPlan | None, file: Path | None
) -> tuple[str, Scenario]:
    """Return the name and the scenario, with K and E_l of the plan; the plan's own scenario where
    none is named."""
    if name is None:
        if planned is None:
            raise BadInput(f"which scenario? name a file, or one of: {', '.join(SHIPPED)}")
        if planned.scenario is None:
            raise BadInput(f"{file}: its scenario has measured gains: name its file as well")
        return planned.name, planned.apply_to()
    world = load_scenario(name)
    return name, planned.apply_to(world) if planned else world


def note_differences(
    planned: TrainingPlan | None,
    world: Scenario,
    target: Target | None,
    learner: str | None,
    seed: int,
    data_dir: Path | None,
    quiet: bool = False,
) -> list[str]:
    """Return the differences between a run and its plan, and warn of them before the run."""
    if planned is None:
        return []
    with progress_bars() as progress:
        changed = planned.differences(
            world, target, learner, seed=seed, data_dir=data_dir, report=progress.download
        )
    if changed and not quiet:
        note = f"this is not what was planned ({', '.join(changed)}): predictions are not compared"
        warnings.warn(note, FedcellWarning, stacklevel=2)
    return changed


def own_policy(planned: TrainingPlan, file: Path | None) -> str:
    """Return the policy of a plan if it is built-in: a file never names code to run."""
    if planned.policy not in BUILT_IN:
        raise BadInput(
            f"{file}: was planned for the policy {planned.policy}, which is not built-in: give "
            f"--policy {planned.policy} if you trust it"
        )
    return planned.policy


def check_adaptive(
    adaptive: bool,
    options: AdaptiveOptions,
    seeds: int | None,
    plan: TrainingPlan | None,
    target: Target | None,
) -> None:
    """Refuse options that need --adaptive without it, and those that contradict it."""
    if not adaptive:
        if given := options.given():
            raise BadInput(f"{', '.join(given)}: for a plan that adapts: give --adaptive as well")
        return
    if seeds is not None:
        raise BadInput("--adaptive and --seeds: a run that adapts has one seed: give --seed")
    if plan is not None and options.pilot is not None:
        raise BadInput("--plan and --pilot: give one of them, or none")
    if target is None:
        raise BadInput(
            "--adaptive: a plan is one to a target: give --target, --target-loss, "
            "--target-accuracy or learning.target"
        )
