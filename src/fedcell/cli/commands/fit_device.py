"""Fit a device to measurements."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import command, draw_if_asked, figure_target, out
from fedcell.cli.options import AsJson, figure_of, name_of, out_file, real
from fedcell.core.files.formats import check_target
from fedcell.scenario.measured_device.fit import fit_device as fit
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

MeasuredFile = Annotated[
    Path,
    typer.Argument(
        help="Measurements as CSV: clock_ghz, batch, steps, seconds, joules or watts; rows without "
        "a clock are of the idle device."
    ),
]
DeviceName = Annotated[str, name_of("Name of the device in scenarios.", "--name")]
Exponent = Annotated[
    float | None, real("alpha of kappa f^alpha, where it is known. Default: fitted.")
]
Out = Annotated[Path | None, out_file("Write the device to this file, for scenarios (.toml).")]
Figure = Annotated[Path | None, figure_of("watts over the clock, and the residuals")]


@command(
    "fedcell fit-device measurements.csv --out mine.toml",
    "fedcell fit-device measurements.csv --name camera --figure fit.png",
)
def fit_device(
    measurements: MeasuredFile,
    name: DeviceName = "mine",
    exponent: Exponent = None,
    out_path: Out = None,
    figure: Figure = None,
    as_json: AsJson = False,
) -> None:
    """Fit a device to measurements of seconds and joules at several clocks and batch sizes.

    Scenarios name the device: catalogue = "mine.toml" and device = "mine".
    """
    target = figure_target(figure)
    if out_path is not None:
        check_target(out_path, ("toml",))
    fitted = fit(measurements, name, exponent)
    if out_path is not None:
        fitted.save(out_path)
    if as_json:
        print_json(fitted.to_dict())
    else:
        print_result(out, fitted)
        if out_path is not None:
            out.print(
                f'device: {out_path}; in a scenario: catalogue = "{out_path}", device = "{name}"',
                soft_wrap=True,
            )
    draw_if_asked(fitted, target, figure, quiet=as_json)
