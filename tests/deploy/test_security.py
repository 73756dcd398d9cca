"""A closed federation: TLS, keys of nodes, and no connection to another machine."""

import http.client
import socket
import ssl
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fedcell import load_run, run

pytestmark = [pytest.mark.flower, pytest.mark.slow]
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from fedcell.deploy.exchanges import read_exchanges  # noqa: E402
from fedcell.deploy.local.federation import (  # noqa: E402
    HOST,
    LocalFederation,
    Tls,
)
from fedcell.deploy.local.processes import (  # noqa: E402
    OFFLINE,
    Process,
)
from fedcell.deploy.options import RunConfig  # noqa: E402
from support.certificates import authority, node_key, server_certificate  # noqa: E402
from support.federations import (  # noqa: E402
    ENOUGH,
    environment,
    named,
    ours,
    peers,
    same,
    until,
    world,
)

COUNT, ROUNDS, SEED = 2, 1, 5
LOOPBACK = {
    "0100007F",
    "00000000",
    "0" * 32,
    "0" * 24 + "01000000",
    "0000000000000000FFFF00000100007F",
}


@dataclass
class Shared:
    """A closed federation that has done a run, with strangers about."""

    federation: LocalFederation
    folder: Path
    stranger: Process  # with a key that is not registered
    distrustful: Process  # that does not know the authority
    environments: dict[str, dict[str, str]]  # by command
    peers: set[str]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Two devices with keys that are registered, and two processes that do not belong."""
    folder = tmp_path_factory.mktemp("security")
    world(folder / "world.toml", count=COUNT, cohort=COUNT, rounds=ROUNDS)
    certificate, key = server_certificate(folder, authority(folder / "ca.pem"))
    authority(folder / "other.pem", "another authority")
    keys = [node_key(folder, f"node-{j}") for j in range(COUNT + 2)]
    private = [one for one, _ in keys]
    lines = [f"client-{j},{public.read_text().strip()}" for j, (_, public) in enumerate(keys)]
    (folder / "keys.csv").write_text("\n".join(["name,key", *lines]) + "\n")
    tls = Tls(ca=folder / "ca.pem", certificate=certificate, key=key, node_keys=private)
    with LocalFederation(folder / "federation", tls) as federation:
        federation.start_superlink()
        for _, public in keys[:COUNT]:
            federation.register(public)
        for place in range(COUNT):
            federation.start_node({"partition-id": place})
        stranger = federation.start_node({"partition-id": 0, "device": "stranger"}, "stranger")
        federation.register(keys[COUNT + 1][1])
        federation.tls = replace(tls, ca=folder / "other.pem")
        distrustful = federation.start_node({"partition-id": 1, "device": "other"}, "distrustful")
        federation.tls = tls
        config = RunConfig(
            scenario=str(folder / "world.toml"),
            folder=str(folder / "run"),
            seed=SEED,
            deadline=90.0,
            keys=str(folder / "keys.csv"),
        )
        environments, ends = {}, set()

        def look() -> None:
            found = ours()
            ends.update(peers(found))
            known = {words: environment(pid) for pid, words in found.items()}
            environments.update(
                {words: variables for words, variables in known.items() if variables}
            )

        federation.wait(federation.submit(config), ENOUGH, look)
        yield Shared(federation, folder, stranger, distrustful, environments, ends)


def test_registered_devices_train_over_tls_to_the_bits_of_a_simulation(shared):
    from fedcell import load_scenario

    own = run(load_scenario(shared.folder / "world.toml"), ["distributed"], seed=SEED)
    assert same(load_run(shared.folder / "run").state.model, own.state.model)


def test_devices_join_with_the_keys_that_a_table_binds_their_names_to(shared):
    """The SuperLink tells the ServerApp the key of each node, with a checked signature."""
    met = [e for e in read_exchanges(shared.folder / "run") if e.round == 0]
    assert [(e.outcome, e.why) for e in met] == [("introduced", "")] * COUNT


def test_devices_that_are_not_registered_never_show_up(shared):
    names = {line.name for line in read_exchanges(shared.folder / "run")}
    assert names == {"client-0", "client-1"}
    until(lambda: not shared.stranger.running, what="the end of the stranger")
    assert shared.stranger.handle.returncode != 0


def test_a_node_that_does_not_know_the_authority_does_not_connect(shared):
    log = shared.distrustful.log.read_text(errors="replace")
    assert "certificate verify failed" in log.lower().replace("_", " ")


def test_plain_http_is_refused_on_the_port_of_tls(shared):
    plain = http.client.HTTPConnection(HOST, shared.federation.port, timeout=10)
    plain.request("GET", "/")
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.getresponse()
    plain.close()


@pytest.mark.parametrize(("ca", "trusted"), [("ca.pem", True), ("other.pem", False)])
def test_the_server_shows_a_certificate_of_its_authority(shared, ca, trusted):
    context = ssl.create_default_context(cafile=str(shared.folder / ca))
    with socket.create_connection((HOST, shared.federation.port), 10) as plain:
        if trusted:
            with context.wrap_socket(plain, server_hostname=HOST) as secure:
                assert secure.version() in ("TLSv1.2", "TLSv1.3")
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                context.wrap_socket(plain, server_hostname=HOST)


def test_every_process_is_started_offline(shared):
    environments = shared.environments
    for word in ("flower-superlink", "flower-supernode", "flwr-serverapp", "flwr-clientapp"):
        assert any(word in command for command in environments), word
    for command, variables in environments.items():
        assert variables.items() >= OFFLINE.items(), command


def test_no_process_has_talked_to_another_machine(shared):
    assert shared.peers <= LOOPBACK
    assert shared.peers & {"0100007F"}


def test_the_processes_that_serve_are_there_until_the_federation_ends(shared):
    assert named("flower-superlink")
    assert shared.federation.superlink.running
