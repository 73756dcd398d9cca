"""Print the uploads of a testbed: modelled time, time on the link, and Flower's overhead."""

from rich.console import Console

from fedcell.deploy.testbed.uploads import TestbedReport

from .console import digits, print_table


def print_testbed(out: Console, report: TestbedReport) -> None:
    """Print every upload over its shaped link with its modelled time."""
    uploads = sorted(report.uploads, key=lambda u: (u.round, u.client))
    if not uploads:
        out.print("no upload came")
        return
    print_table(
        out,
        f"Uploads of {report.bits / 1e6:.3g} Mbit over shaped links, policy {report.policy}",
        {
            "round": [str(u.round) for u in uploads],
            "device": [u.name for u in uploads],
            "link [Mbit/s]": [digits(u.rate / 1e6) for u in uploads],
            "model [s]": [digits(u.modelled) for u in uploads],
            "on the link [s]": [digits(u.link) for u in uploads],
            "off [%]": [f"{100 * u.error:+.1f}" for u in uploads],
            "Flower adds [s]": [digits(u.overhead) for u in uploads],
        },
        labels=2,
    )
    out.print(
        f"the link takes {100 * report.median_error:.1f} % more or less than the model in the "
        f"median, {100 * report.worst_error:.1f} % at most; heads of packets alone are 4.4 %"
    )
    out.print(
        f"Flower adds {report.overhead:.2g} s to an upload in the median: polls and processes of "
        "its own"
    )
    if report.limited:
        print_table(
            out,
            "Training on limited processors",
            {
                "round": [str(u.round) for u in uploads],
                "device": [u.name for u in uploads],
                "of a processor [%]": [f"{100 * u.cpu:.0f}" for u in uploads],
                "model [s]": [digits(u.modelled_training) for u in uploads],
                "clock [s]": [digits(u.training) for u in uploads],
            },
            labels=2,
        )
        out.print(
            f"training is {100 * report.training_error:.0f} % off in the median; all devices share "
            "the processors of this machine"
        )
    else:
        out.print("processors could not be limited here: training times are not compared")
