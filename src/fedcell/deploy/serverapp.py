"""The ready ServerApp: runs a scenario or a plan on the devices that are connected.

What it runs stands in the configuration of the Flower run: see `config.RunConfig`.
"""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedcell.core.errors import FedcellError
from fedcell.core.files import as_json, write_text

from .config import RunConfig
from .running import run_federation

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs what the configuration says, and tells how that ended where it is asked for."""
    config = RunConfig.of(dict(context.run_config))
    try:
        result = run_federation(
            grid,
            config.world(),
            rounds=config.rounds or None,
            target=config.goal(),
            seed=config.seed,
            folder=config.folder,
            resume=config.resume,
            settings=config.settings(),
            join_timeout=config.join_timeout,
            judged_by=config.judged_by,
            data_dir=Path(config.data_dir) if config.data_dir else None,
            schedule_file=config.schedule_file or None,
        )
    except FedcellError as error:
        _tell(config, str(error))
        print(f"fedcell: {error}", flush=True)
        raise
    except Exception as error:
        _tell(config, f"{type(error).__name__}: {error}")
        raise
    _tell(config, None)
    print(f"fedcell: {result!r}", flush=True)


def _tell(config: RunConfig, error: str | None) -> None:
    if config.status_file:
        write_text(Path(config.status_file), as_json({"ended": True, "error": error}))
