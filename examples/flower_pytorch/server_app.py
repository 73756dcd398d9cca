"""The server: run a fedcell scenario or plan on the connected devices."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from task import make_model

from fedcell import load_scenario
from fedcell.core.files.formats import write_text
from fedcell.deploy.flower import Settings, run_federation

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    result = run_federation(
        grid,
        load_scenario(Path(__file__).parent / str(config["scenario"])),
        arrays={name: value.numpy() for name, value in make_model().state_dict().items()},
        rounds=int(config["rounds"]),
        folder=str(config["folder"]),
        settings=Settings(policy="optimal", deadline=float(config["deadline"])),
    )
    print(result)
    if config["status-file"]:  # a caller waits for the end
        write_text(Path(str(config["status-file"])), '{"ended": true, "error": null}')
