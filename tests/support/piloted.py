"""The committed pilot of the digits, and the scenario that it is of."""

from pathlib import Path

from fedcell import Scenario, load_scenario
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.scenario.save import save_scenario

ROOT = Path(__file__).parents[2]
PILOT = ROOT / "benchmarks" / "results" / "planning" / "pilot-digits.json"


def piloted_digits() -> Scenario:
    """The digits, delivering the model that the pilot was judged by."""
    learning = load_pilot(PILOT).identity["scenario"]["learning"]
    return load_scenario("digits").using(learning={"deliver": learning.get("deliver", "last")})


def piloted_file(folder: Path) -> Path:
    """The same as a file."""
    save_scenario(piloted_digits(), folder / "digits.toml")
    return folder / "digits.toml"
