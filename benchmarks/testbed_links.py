"""Do the links of a testbed have the rates that are asked for?

    sudo python benchmarks/testbed_links.py [--json] [--seconds 4]

A client sends over TCP for some seconds, alone and with three others. Seen by the meter, in whole
packets as the rate is set; and by the clock of the receiver, without headers, of which at best
1448 / 1514 = 0.956 of the rate can be left.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from fedcell.deploy.testbed.testbed import Testbed, why_not

RATES = [1e6, 2e6, 5e6, 10e6, 20e6]  # bit/s
TOGETHER = [1e6, 2e6, 5e6, 20e6]
PATIENCE = 60  # s after which a transfer is given up

RECEIVE = """
import socket, sys, time
address, port, patience = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
with socket.create_server((address, port)) as server:
    print("ready", flush=True)
    server.settimeout(patience)
    link = server.accept()[0]
with link:
    link.settimeout(patience)
    link.recv(1 << 16)
    begin = end = time.monotonic()
    count = 0
    while chunk := link.recv(1 << 16):
        count, end = count + len(chunk), time.monotonic()
print(count, end - begin, flush=True)
"""
SEND = """
import socket, sys
address, port, patience, count = sys.argv[1], *map(int, sys.argv[2:])
with socket.create_connection((address, port), timeout=patience) as link:
    link.sendall(bytes(count))
    link.shutdown(socket.SHUT_WR)
    link.recv(1)  # until the other end has all of it
"""


def python(code, *words):
    return [sys.executable, "-I", "-S", "-c", code, *map(str, words)]


def transfer(testbed, sizes, meanwhile=lambda: None):
    """Sends `sizes[client]` bytes from each client to the server, all at once. By client: the
    rate by the receiver's clock [bit/s], and what the meter saw."""
    server, deadline = testbed.address("server"), time.monotonic() + PATIENCE
    with tempfile.TemporaryDirectory() as folder, testbed.meter() as meter:
        logs = {client: Path(folder) / f"{client}.log" for client in sizes}
        receivers, senders = [], []
        for client, log in logs.items():
            command = python(RECEIVE, server, 9000 + client, PATIENCE)
            receivers.append(testbed.start("server", command, log=log))
        while not all("ready" in log.read_text() for log in logs.values()):
            assert time.monotonic() < deadline, {log.read_text() for log in logs.values()}
            time.sleep(0.01)
        begin = time.monotonic()
        for client, size in sizes.items():
            command = python(SEND, server, 9000 + client, PATIENCE, size)
            senders.append(testbed.start(client, command, log=Path(folder) / "senders.log"))
        meanwhile()
        for process in [*senders, *receivers]:
            code = process.wait(max(0.1, deadline - time.monotonic()))
            assert code == 0, (Path(folder) / "senders.log").read_text()
        seen = {client: meter.upload(client, begin, time.monotonic()) for client in sizes}
        told = {client: log.read_text().split()[-2:] for client, log in logs.items()}
    clocks = {client: 8 * int(count) / float(spent) for client, (count, spent) in told.items()}
    return {client: (clocks[client], seen[client]) for client in sizes}


def measure(rates, seconds):
    """All rates at once, a client each."""
    with Testbed(len(rates)) as testbed:
        for client, rate in enumerate(rates):
            testbed.set_rate(client, rate)
        sizes = {client: round(rate / 8 * seconds) for client, rate in enumerate(rates)}
        found = transfer(testbed, sizes)
    return [
        {"at_once": len(rates), "asked": rate, "seen": found[c][1].rate, "clock": found[c][0]}
        for c, rate in enumerate(rates)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    if reason := why_not():
        sys.exit(reason)
    rows = [row for rate in RATES for row in measure([rate], options.seconds)]
    rows += measure(TOGETHER, options.seconds)
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print("clients  Mbit/s asked     seen    error  without headers")
    for row in rows:
        asked, seen, clock = (row[key] / 1e6 for key in ("asked", "seen", "clock"))
        print(
            f"{row['at_once']:7}  {asked:12.1f} {seen:8.3f} {seen / asked - 1:+8.1%} {clock:16.3f}"
        )


if __name__ == "__main__":
    main()
