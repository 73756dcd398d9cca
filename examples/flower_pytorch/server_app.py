"""The server: run a fedcell scenario or plan on the connected devices."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from task import make_model

from fedcell import load_scenario
from fedcell.core.files.formats import write_text
from fedcell.deploy import FederationOptions
from fedcell.deploy.flower import run_federation

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    result = run_federation(
        grid,
        load_scenario(Path(__file__).parent / str(config["scenario"])),
        rounds=int(config["rounds"]),
        folder=str(config["folder"]),
        options=FederationOptions(
            policy="optimal",
            deadline=float(config["deadline"]),
            arrays={name: value.numpy() for name, value in make_model().state_dict().items()},
        ),
    )
    print(result)
    if config["status-file"]:  # a caller waits for the end
        write_text(Path(str(config["status-file"])), '{"ended": true, "error": null}')
