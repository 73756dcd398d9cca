"""Print the catalogue of devices and radios, an entry with its sources, and rates of links."""

import numpy as np
from rich.console import Console
from rich.padding import Padding

from fedcell.core.errors import printable
from fedcell.network.physics.discrete.curve import LinkCurve
from fedcell.scenario.catalogue.entries import Catalogue, Entry, Fact

from .console import counted, print_table

ASSUMED = "assumed: set your own"
LINES = 12  # of the rates of a link


def print_catalogue(out: Console, catalogue: Catalogue) -> None:
    """Print the names of all devices and radios."""
    for kind, title in (("device", "Devices"), ("radio", "Radios")):
        entries = catalogue.of(kind)  # type: ignore[arg-type]
        assumed = [sum(f.mark == "assumed" for f in entry.facts) for entry in entries]
        print_table(
            out,
            title,
            {
                "name": [entry.name for entry in entries],
                "what it is": [printable(entry.title) for entry in entries],
                "numbers": [str(len(entry.facts)) for entry in entries],
                "assumed": [str(n) if n else "-" for n in assumed],
            },
        )
    out.print("\nfedcell devices NAME shows every number of one with its source")


def print_entry(out: Console, entry: Entry) -> None:
    """Print every number of a device or a radio, with its mark, source and derivation."""
    out.print(f"{entry.name}: {printable(entry.title)}", style="bold", soft_wrap=True)
    for applied, title in ((True, "put into a scenario"), (False, "for you to use")):
        facts = [fact for fact in entry.facts if fact.applied == applied]
        if not facts:
            continue
        out.print(f"\n{len(facts)} {counted(len(facts), 'number')} {title}", style="bold")
        for fact in facts:
            mark = ASSUMED if fact.mark == "assumed" else fact.mark
            out.print(f"  {fact.key} = {_quantity(fact)}, {mark}", soft_wrap=True)
            for text in filter(None, (fact.source, fact.note)):
                out.print(Padding(printable(text), (0, 0, 0, 6)), highlight=False)


def _quantity(fact: Fact) -> str:
    if isinstance(fact.value, tuple):
        return f"{', '.join(f'{each:.5g}' for each in fact.value)} {fact.unit}"
    value = f"{fact.value:.4g}" if isinstance(fact.value, float | int) else f'"{fact.value}"'
    return f"{value} {fact.unit}".rstrip()


def print_link(out: Console, curve: LinkCurve) -> None:
    """Print the rate by each law at some SNR."""
    some = np.linspace(0, len(curve.snr_db) - 1, LINES).round().astype(int)
    columns = {"SNR [dB]": [f"{snr:.1f}" for snr in curve.snr_db[some]]}
    for name, values in curve.efficiency.items():
        columns[name] = [f"{value:.3g}" for value in values[some]]
    print_table(out, "Rate [bit/s/Hz]", columns)
