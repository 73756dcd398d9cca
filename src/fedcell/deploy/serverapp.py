"""The ready ServerApp: runs a scenario or a plan on the devices that are connected.

What it runs stands in the configuration of the Flower run: see `config.RunConfig`.
"""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedcell.core.errors import FedcellError
from fedcell.core.files import as_json, write_text
from fedcell.planning.pilot import Pilot
from fedcell.simulation.result import RunResult

from .config import RunConfig
from .piloting import pilot_federation
from .running import run_federation

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs what the configuration says, and tells how that ended where it is asked for."""
    config = RunConfig.of(dict(context.run_config))
    try:
        result = _carried_out(grid, config)
    except FedcellError as error:
        _tell(config, str(error))
        print(f"fedcell: {error}", flush=True)
        raise
    except Exception as error:
        _tell(config, f"{type(error).__name__}: {error}")
        raise
    _tell(config, None)
    print(f"fedcell: {result!r}", flush=True)


def _carried_out(grid: Grid, config: RunConfig) -> Pilot | RunResult:
    world, shared = config.world(), config.shared()
    if config.pilot_file:
        return pilot_federation(grid, world, config.pilot_budget, config.pilot_file, **shared)
    return run_federation(
        grid,
        world,
        folder=config.folder,
        resume=config.resume,
        schedule_file=config.schedule_file or None,
        adaptive=config.adaptive,
        every=config.every,
        law=config.law() if config.adaptive else None,
        **shared,
    )


def _tell(config: RunConfig, error: str | None) -> None:
    if config.status_file:
        write_text(Path(config.status_file), as_json({"ended": True, "error": error}))
