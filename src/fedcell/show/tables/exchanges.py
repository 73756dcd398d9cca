"""Devices of a federation as tables: measured beside modelled, and what went wrong."""

from collections import Counter

from rich.console import Console

from fedcell.core.showing import shortened
from fedcell.deploy.exchanges import Exchange, ExchangeReport

from .console import digits, print_table

MOST_DEVICES = 50  # that have a line of their own
MOST_EVENTS = 20


def print_exchanges(out: Console, report: ExchangeReport) -> None:
    """Who did what, and what the clocks say beside what the model says."""
    devices = report.devices()
    shown = devices[:MOST_DEVICES]
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
    told = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes.items())
    out.print(f"what came of the calls of {report.rounds} rounds: {told or 'nobody was called'}")
    _print_events(out, report.events)


def _print_events(out: Console, events: list[Exchange]) -> None:
    for event in events[:MOST_EVENTS]:
        who = event.name or "a node"
        why = f": {shortened(event.why, 120)}" if event.why else ""
        out.print(f"round {event.round}: {who} {_words(event.outcome)}{why}")
    if len(events) > MOST_EVENTS:
        rest = Counter(event.outcome for event in events[MOST_EVENTS:])
        words = ", ".join(f"{count} {outcome}" for outcome, count in rest.items())
        out.print(f"and {len(events) - MOST_EVENTS} more events: {words}")


def _words(outcome: str) -> str:
    return "was introduced" if outcome == "introduced" else f"was {outcome}"
