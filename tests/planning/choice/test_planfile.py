"""Files of plans."""

import json
from pathlib import Path

import pytest

from fedcell import Region, TrainingPlan, plan_training
from fedcell.errors import BadFile
from fedcell.planning.choice.limits import Limits
from fedcell.planning.law.given import GivenLaw
from support.piloted import PILOT, piloted_digits

OLD_PLAN = Path(__file__).parents[2] / "support" / "data" / "plan-of-format-3.json"


def test_a_plan_file_of_format_3_is_read(tmp_path):
    old = json.loads(OLD_PLAN.read_text())
    assert old["format"] == 3
    plan = TrainingPlan.load(OLD_PLAN)
    for name in ("cohort", "local_steps"):
        assert getattr(plan, name) == old[name]["value"]
        assert vars(getattr(plan, f"{name}_interval")) == old[name]
    assert vars(plan.cost) == old["cost"]
    plan.save(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["format"] == 4
    assert TrainingPlan.load(tmp_path / "plan.json").to_dict() == plan.to_dict()
    (tmp_path / "damaged.json").write_text(OLD_PLAN.read_text().replace('"low": 3,', '"low": 2,'))
    with pytest.raises(BadFile, match="is damaged"):
        TrainingPlan.load(tmp_path / "damaged.json")


def test_a_plan_comes_back_from_its_file(tmp_path):
    world, pilot = piloted_digits(), PILOT
    limits = Limits(deadline=60.0, energy_per_client=5.0)
    plan = plan_training(
        world, pilot, limits=limits, what_if=True, region=Region(minimise="energy")
    ).named("digits")
    plan.save(tmp_path / "plan.json")
    again = TrainingPlan.load(tmp_path / "plan.json")
    assert again.to_dict() == plan.to_dict()
    assert again.law == GivenLaw.of(plan.law.coefficients)  # not the runs' spread
    assert again.scenario == world
    assert again.apply_to() == plan.apply_to()
    assert again.limits == limits
    assert repr(again) == repr(plan)
    content = json.loads((tmp_path / "plan.json").read_text())
    content["policies"] = content["policies"][1:]  # without its own
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(BadFile, match="policies: optimal is not among them; plan again with"):
        TrainingPlan.load(tmp_path / "plan.json")
