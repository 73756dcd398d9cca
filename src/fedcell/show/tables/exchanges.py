"""Print the devices of a federation: measured and modelled times, and faults."""

from collections import Counter

from rich.console import Console

from fedcell.core.showing import shortened
from fedcell.deploy.exchanges import Exchange, ExchangeReport

from .console import digits, print_table

MAX_DEVICES = 50  # rows of a table
MAX_EVENTS = 20


def print_exchanges(out: Console, report: ExchangeReport) -> None:
    """Print measured and modelled medians of each device, and the outcomes of calls."""
    devices = report.devices()
    shown = devices[:MAX_DEVICES]
    names = [device.name for device in shown]
    print_table(
        out,
        "Devices by the model: medians of a round",
        {
            "device": names,
            "called": [str(device.called) for device in shown],
            "counted": [str(device.arrived) for device in shown],
            "train [s]": [digits(device.modelled_training) for device in shown],
            "upload [s]": [digits(device.modelled_upload) for device in shown],
            "energy in all [J]": [digits(device.modelled_energy) for device in shown],
        },
    )
    print_table(
        out,
        "The same by the clock",
        {
            "device": names,
            "train [s]": [digits(device.measured_training) for device in shown],
            "upload [s]": [digits(device.measured_upload) for device in shown],
            "waiting [s]": [digits(device.measured_waiting) for device in shown],
            "in all [MB]": [digits(device.measured_bytes / 1e6) for device in shown],
        },
    )
    if len(devices) > len(shown):
        out.print(f"and {len(devices) - len(shown)} more")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes.items())
    out.print(
        f"outcomes of the calls of {report.rounds} rounds: {counts or 'no client was called'}"
    )
    _print_events(out, report.events)


def _print_events(out: Console, events: list[Exchange]) -> None:
    for event in events[:MAX_EVENTS]:
        device = event.name or "a node"
        why = f": {shortened(event.why, 120)}" if event.why else ""
        out.print(f"round {event.round}: {device} {_words(event.outcome)}{why}")
    if len(events) > MAX_EVENTS:
        rest = Counter(event.outcome for event in events[MAX_EVENTS:])
        words = ", ".join(f"{count} {outcome}" for outcome, count in rest.items())
        out.print(f"and {len(events) - MAX_EVENTS} more events: {words}")


def _words(outcome: str) -> str:
    return "was introduced" if outcome == "introduced" else f"was {outcome}"
