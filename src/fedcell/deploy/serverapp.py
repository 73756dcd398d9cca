"""The ready ServerApp: runs a scenario or a plan on the devices that are connected.

What it runs stands in the configuration of the Flower run: see `options.RunConfig`.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedcell.core.errors import Diverged, FedcellError
from fedcell.core.files.formats import as_json, write_text
from fedcell.deploy.server.pilot import pilot_federation
from fedcell.deploy.server.run import run_federation
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.setting import Region
from fedcell.simulation.compute import Observer
from fedcell.simulation.summary import RunResult

from .exchanges import Exchange, Outcome, collapse_of
from .options import RunConfig

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs what the configuration says, and tells how that ended where it is asked for."""
    config = RunConfig.of(dict(context.run_config))
    try:
        result = _carried_out(grid, config)
    except FedcellError as error:
        _tell(config, str(error))
        _print(str(error))
        raise
    except Exception as error:
        _tell(config, f"{type(error).__name__}: {error}")
        raise
    _tell(config, None)
    _print(repr(result))
    if isinstance(result, RunResult) and (collapse := collapse_of(result)) is not None:
        _print(collapse)
        raise Diverged(collapse)  # the folder is whole, and the run has failed


def _carried_out(grid: Grid, config: RunConfig) -> Pilot | RunResult:
    world = config.world()
    if changed := config.differences(world):
        _print(f"note: this is not what was planned ({', '.join(changed)})")
    options = replace(config.options(), on_exchanges=_show)
    if config.pilot_file:
        return pilot_federation(
            *(grid, world, config.pilot_budget, config.pilot_file),
            target=config.target(),
            region=Region(rounds=config.rounds or None),
            seed=config.seed,
            options=options,
        )
    return run_federation(
        grid,
        world,
        rounds=config.rounds or None,
        target=config.target(),
        seed=config.seed,
        folder=config.folder,
        resume=config.resume,
        options=options,
        observer=Observer(message=_print),
    )


def _show(exchanges: Sequence[Exchange]) -> None:
    """Says at once which devices are refused: they can be corrected while others are awaited."""
    for row in exchanges:
        if row.outcome == Outcome.REFUSED:
            _print(f"{row.name} was refused: {row.why}")


def _print(words: str) -> None:
    """For the log of the run, which `flwr run --stream` shows."""
    print(f"fedcell: {words}", flush=True)


def _tell(config: RunConfig, error: str | None) -> None:
    if config.status_file:
        write_text(Path(config.status_file), as_json({"ended": True, "error": error}))
