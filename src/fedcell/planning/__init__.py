"""Before training: rounds to a target, the best K and E_l, and how sure they are."""

from typing import TYPE_CHECKING

from fedcell.core.lazy import attach

if TYPE_CHECKING:
    from fedcell.core.estimates import Estimate as Estimate
    from fedcell.planning.adaptive.run import Adaptation as Adaptation
    from fedcell.planning.adaptive.run import run_adaptive as run_adaptive
    from fedcell.planning.choice.limits import Limits as Limits
    from fedcell.planning.choice.plan import PlanOutcome as PlanOutcome
    from fedcell.planning.choice.plan import TrainingPlan as TrainingPlan
    from fedcell.planning.choice.plan import WhatIf as WhatIf
    from fedcell.planning.choice.planfile import load_plan as load_plan
    from fedcell.planning.constants import ConstantsReport as ConstantsReport
    from fedcell.planning.constants import measure_constants as measure_constants
    from fedcell.planning.costs.batteries import BatteryLife as BatteryLife
    from fedcell.planning.costs.batteries import battery_lives as battery_lives
    from fedcell.planning.law.base import RoundsLaw as RoundsLaw
    from fedcell.planning.law.fitted import FittedLaw as FittedLaw
    from fedcell.planning.law.given import GivenLaw as GivenLaw
    from fedcell.planning.law.given import UnitCosts as UnitCosts
    from fedcell.planning.law.theory import Constants as Constants
    from fedcell.planning.pilot.pilot import Pilot as Pilot
    from fedcell.planning.pilot.pilotfile import load_pilot as load_pilot
    from fedcell.planning.pilot.run import run_pilot as run_pilot
    from fedcell.planning.pilot.summary import PilotReport as PilotReport
    from fedcell.planning.pilot.trial import Trial as Trial
    from fedcell.planning.pilot.validation import Validation as Validation
    from fedcell.planning.pilot.validation import validate_pilot as validate_pilot
    from fedcell.planning.planner import plan_training as plan_training
    from fedcell.planning.setting import Objective as Objective
    from fedcell.planning.setting import Region as Region
    from fedcell.planning.setting import Setting as Setting

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "fedcell.core.estimates": ["Estimate"],
        "fedcell.planning.adaptive.run": ["Adaptation", "run_adaptive"],
        "fedcell.planning.choice.limits": ["Limits"],
        "fedcell.planning.choice.plan": ["PlanOutcome", "TrainingPlan", "WhatIf"],
        "fedcell.planning.choice.planfile": ["load_plan"],
        "fedcell.planning.constants": ["ConstantsReport", "measure_constants"],
        "fedcell.planning.costs.batteries": ["BatteryLife", "battery_lives"],
        "fedcell.planning.law.base": ["RoundsLaw"],
        "fedcell.planning.law.fitted": ["FittedLaw"],
        "fedcell.planning.law.given": ["GivenLaw", "UnitCosts"],
        "fedcell.planning.law.theory": ["Constants"],
        "fedcell.planning.pilot.pilot": ["Pilot"],
        "fedcell.planning.pilot.pilotfile": ["load_pilot"],
        "fedcell.planning.pilot.run": ["run_pilot"],
        "fedcell.planning.pilot.summary": ["PilotReport"],
        "fedcell.planning.pilot.trial": ["Trial"],
        "fedcell.planning.pilot.validation": ["Validation", "validate_pilot"],
        "fedcell.planning.planner": ["plan_training"],
        "fedcell.planning.setting": ["Objective", "Region", "Setting"],
    },
)
