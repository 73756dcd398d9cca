"""The configuration of a Flower run, and the files of its app."""

import json
import shlex
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import Adaptation, GivenLaw, Region, Target, load_scenario, plan_training
from fedcell.core.schema import field_infos
from fedcell.deploy.local.federation import node_config
from fedcell.deploy.options import COMPONENTS, RunConfig, app_files, write_app
from fedcell.errors import BadFile, BadInput

NAMES = [info.name for info in field_infos(RunConfig)]


def test_a_configuration_of_flower_s_is_read_with_dashes():
    given = {
        "scenario": "paper",
        "join-timeout": 5.0,
        "target-loss": 1,
        "judged-by": "devices",
        "screen-factor": 2.5,
        "resume": True,
        "rounds": 7,
    }
    config = RunConfig.of(given)
    assert (config.scenario, config.join_timeout, config.judged_by) == ("paper", 5.0, "devices")
    assert (config.target_loss, config.screen_factor, config.resume) == (1.0, 2.5, True)
    assert RunConfig.of({}) == RunConfig()


def test_unknown_keys_are_left_alone():
    assert RunConfig.of({"num-server-rounds": 3, "lr": 0.1, "seed": 4}) == RunConfig(seed=4)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("deadline", 0.0, "expected a number above 0"),
        ("deadline", -1.0, "expected a number above 0"),
        ("deadline", "soon", "expected"),
        ("deadline", float("nan"), "deadline"),
        ("join-timeout", 0, "join"),
        ("judged-by", "anything", "server"),
        ("screen", "all", "clip"),
        ("screen-factor", 0.0, "screen"),
        ("every", 0, "every"),
        ("rounds", "ten", "rounds"),
        ("rounds", -1, "rounds"),
        ("rounds", 2.5, "rounds"),
        ("seed", -1, "seed"),
        ("seed", 0.5, "seed"),
        ("target-loss", -0.5, "target"),
        ("resume", "yes", "resume"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_key(key, value, why):
    with pytest.raises(BadInput) as refused:
        RunConfig.of({key: value})
    said = str(refused.value)
    assert f"run-config.{key.replace('-', '_')}" in said or f"run-config.{key}" in said
    assert why in said
    assert "\n" not in said


def test_the_files_of_an_app_are_toml_with_every_key():
    files = app_files()
    assert list(files) == ["pyproject.toml"]
    content = tomllib.loads(files["pyproject.toml"])
    app = content["tool"]["flwr"]["app"]
    assert app["components"] == COMPONENTS
    assert set(app["config"]) == {name.replace("_", "-") for name in NAMES}
    assert content["project"]["dependencies"] == []
    assert RunConfig.of(app["config"]) == RunConfig()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(
    scenario=TEXTS,
    folder=TEXTS,
    seed=st.integers(0, 2**31),
    deadline=st.floats(1e-3, 1e9),
    resume=st.booleans(),
)
def test_every_configuration_is_read_back_from_its_file(**values):
    config = RunConfig(**values)
    content = tomllib.loads(app_files(config)["pyproject.toml"])
    assert RunConfig.of(content["tool"]["flwr"]["app"]["config"]) == config


def test_an_app_is_written_to_a_new_or_an_empty_folder_only(tmp_path):
    write_app(tmp_path / "deep" / "app", RunConfig(seed=3))
    text = (tmp_path / "deep" / "app" / "pyproject.toml").read_text("utf-8")
    assert "seed = 3" in text
    (tmp_path / "empty").mkdir()
    write_app(tmp_path / "empty")
    (tmp_path / "file").write_text("mine")
    for taken in ("deep/app", "file"):
        with pytest.raises(BadFile, match="is there already: choose another folder for the app"):
            write_app(tmp_path / taken)
    assert (tmp_path / "deep" / "app" / "pyproject.toml").read_text("utf-8") == text
    assert (tmp_path / "file").read_text() == "mine"


def test_settings_of_a_node_are_quoted_as_its_command_takes_them():
    said = node_config({"partition-id": 3, "device": "pump", "kappa": 5e-27, "on": True})
    assert said == 'partition-id=3 device="pump" kappa=5e-27 on=true'


def test_a_run_without_a_plan_runs_its_scenario():
    config = RunConfig(scenario="paper", policy="even", seed=2, deadline=9.0, screen="clip")
    assert config.world() == load_scenario("paper")
    options = config.options()
    assert options.adaptation is None
    assert (options.policy, options.deadline, options.screen) == ("even", 9.0, "clip")
    assert (config.target(), config.seed) == (None, 2)
    assert RunConfig().options().policy == "distributed"
    options = RunConfig(rounds=4, data_dir="there", adaptive=True, every=3).options()
    assert (str(options.data_path), options.adaptation) == ("there", Adaptation(every=3))
    hold = load_scenario("digits").hold
    assert RunConfig(target_loss=0.5).target() == Target(loss=0.5, hold=hold)


def test_a_target_is_a_loss_or_an_accuracy_and_is_held():
    hold = load_scenario("digits").hold
    assert RunConfig().target() is None
    assert RunConfig(target_accuracy=0.9).target() == Target(accuracy=0.9, hold=hold)
    assert RunConfig(target_accuracy=0.9, hold=2).target() == Target(accuracy=0.9, hold=2)
    own = load_scenario("digits").learning.goal
    assert own is not None
    assert RunConfig(hold=2).target() == Target(loss=own.loss, accuracy=own.accuracy, hold=2)
    with pytest.raises(BadInput, match="target-loss and target-accuracy: give one of them"):
        RunConfig(target_loss=1.0, target_accuracy=0.9).target()
    with pytest.raises(BadInput, match="hold: there is no target to hold"):
        RunConfig(scenario="paper", hold=2).target()


def test_zero_devices_to_start_with_are_all_of_them():
    assert RunConfig().options().start_with is None
    assert RunConfig(start_with=3).options().start_with == 3


def test_a_run_with_a_plan_has_its_clients_steps_policy_and_law(tmp_path):
    world = load_scenario("paper")
    law = GivenLaw(mixing=50.0, drift=0.01, start=5.0)
    plan = plan_training(world, law, target=Target(loss=0.5), region=Region(policy="even"))
    plan.save(tmp_path / "plan.json")
    config = RunConfig(scenario="", plan=str(tmp_path / "plan.json"))
    used = config.world().plan
    chosen = plan.cohort, plan.local_steps
    assert (used.cohort, used.local_steps) == chosen
    assert config.options().policy == "even"
    start = config.using(adaptive=True).options().adaptation.start
    assert start.to_dict() == plan.law.to_dict()
    assert config.using(policy="optimal").options().policy == "optimal"
    other = RunConfig(scenario="digits", plan=str(tmp_path / "plan.json")).world()
    assert (other.plan.cohort, other.learning.dataset) == (chosen[0], "digits")


def test_a_plan_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadFile, match=r"no-plan\.json"):
        RunConfig(plan=str(tmp_path / "no-plan.json")).world()


def test_a_configuration_is_plain_values_that_a_shell_may_carry():
    """As `flwr run --run-config` takes them: key="value" pairs."""
    words = [f"{name.replace('_', '-')}={json.dumps(getattr(RunConfig(), name))}" for name in NAMES]
    assert all(len(shlex.split(word)) == 1 for word in words)
