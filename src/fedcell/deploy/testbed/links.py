"""Network namespaces and the links between them, by the commands ip and tc of iproute2.

The bridge and its ports are in the server's namespace. So the network of the machine sees none of
them, its firewall does not interfere, all are removed with the namespaces, and one file there has
the counters of all clients.
"""

import os
import shutil
import subprocess
import sys
from ipaddress import IPv4Network
from pathlib import Path

from fedcell.core.errors import NoTestbed

NAMESPACES = Path("/var/run/netns")  # where ip keeps them
NETWORK = IPv4Network("10.83.0.0/16")  # exists in the namespaces of a testbed only
MAX_CLIENTS = 1000  # a bridge has 1023 ports
BRIDGE, UPLINK = "bridge", "uplink"  # in the server's namespace; in each client's

FRAME = 1514  # bytes of the largest packet on a link, its Ethernet header included
# What the shaper may send at once after a pause: long enough for late timers, which would lower the
# rate, and short against an upload.
BURST = 0.005  # s
QUEUE = 1_000_000  # bytes; TCP keeps far less in it, so that no packet is dropped


def port(client: int) -> str:
    """Return the device at the server's end of a client's link."""
    return f"client{client}"


def unusable() -> str | None:
    """Say why no testbed can be made, without trying to make one; None: no reason is known."""
    if not sys.platform.startswith("linux"):
        return "a testbed needs Linux: it consists of network namespaces"
    if os.geteuid() != 0:
        return "a testbed needs root, as it makes network namespaces: run it as root or with sudo"
    if lacking := [tool for tool in ("ip", "tc") if shutil.which(tool) is None]:
        return f"a testbed needs the command {lacking[0]}: install iproute2"
    return None


def run_tool(*words: str) -> None:
    """Run ip or tc; raise with its message if it fails."""
    # In its own session: Ctrl-C at a terminal must not interrupt it half way.
    done = subprocess.run(words, capture_output=True, text=True, start_new_session=True)
    if done.returncode:
        reason = " ".join(done.stderr.split()) or f"it exited with code {done.returncode}"
        raise NoTestbed(
            f"the network of a testbed cannot be made or changed: {' '.join(words)}: {reason}"
        )


def list_namespaces() -> list[str]:
    """Return the names of all named network namespaces of this machine."""
    return sorted(os.listdir(NAMESPACES)) if NAMESPACES.is_dir() else []


def add_server(server: str) -> None:
    """Make the server's namespace, with a bridge for the clients."""
    _add_namespace(server)
    # No other addresses: IPv6 would send packets over the metered links.
    run_tool("ip", "-n", server, "link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
    run_tool("ip", "-n", server, "link", "set", BRIDGE, "addrgenmode", "none", "up")
    _add_address(server, BRIDGE, server_address())


def add_client(server: str, namespace: str, client: int) -> None:
    """Make a client's namespace, with a link to the bridge."""
    _add_namespace(namespace)
    ours, on_server = ("ip", "-n", namespace), ("ip", "-n", server)
    ends = (port(client), "type", "veth", "peer", "name", UPLINK, "netns", namespace)
    run_tool(*on_server, "link", "add", *ends)
    run_tool(*on_server, "link", "set", port(client), "addrgenmode", "none", "master", BRIDGE, "up")
    # Packets as on a wire: otherwise many reach the shaper as one of up to 64 kB.
    whole = ("gso_max_size", str(FRAME), "gso_max_segs", "1")
    run_tool(*ours, "link", "set", UPLINK, "addrgenmode", "none", *whole, "up")
    _add_address(namespace, UPLINK, client_address(client))


def _add_namespace(namespace: str) -> None:
    run_tool("ip", "netns", "add", namespace)
    run_tool("ip", "-n", namespace, "link", "set", "lo", "up")


def _add_address(namespace: str, device: str, address: str) -> None:
    whole = f"{address}/{NETWORK.prefixlen}"
    run_tool("ip", "-n", namespace, "address", "add", whole, "dev", device)


def server_address() -> str:
    """Return the IPv4 address of the server."""
    return str(NETWORK[1])


def client_address(client: int) -> str:
    """Return the IPv4 address of a client."""
    return str(NETWORK[2 + client])


def shape(namespace: str, device: str, rate: float | None) -> None:
    """Set the rate of a device, in bit/s of whole packets; None: no limit."""
    kind = ["noqueue"]
    if rate is not None:
        burst = max(FRAME, round(BURST * rate / 8))
        kind = ["tbf", "rate", f"{round(rate)}bit", "burst", str(burst), "limit", str(QUEUE)]
    run_tool("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", *kind)


def delete_namespace(namespace: str) -> None:
    """Remove a namespace with all devices in it; do nothing where it is gone already."""
    try:
        run_tool("ip", "netns", "delete", namespace)
    except NoTestbed:
        if namespace in list_namespaces():
            raise
