"""The server answers its own page with the token, and nothing else."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedcell.core.errors import BadInput
from fedcell.studio import server as serving
from fedcell.studio.planning import World
from fedcell.studio.routes import Studio
from fedcell.studio.server import HOST, MAX_BODY, STATIC, TOKEN_HEADER, StudioServer
from support.studios import LAW, Asking, served


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with served() as each:
        yield each


def test_the_page_needs_its_token(asking: Asking):
    status, content, _ = asking.request("GET", "/")
    assert (status, b"ends with a token" in content) == (403, True)
    assert asking.request("GET", "/?token=wrong")[0] == 403
    status, content, headers = asking.request("GET", f"/?token={asking.server.token}")
    assert status == 200
    assert b"fedcell <span>studio" in content
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert asking.server.token.encode() not in content


@pytest.mark.parametrize("what", ["start", "view", "take", "pilot", "runs", "run", "figure"])
@pytest.mark.parametrize("token", ["", "wrong", "ä"])
def test_no_question_is_answered_without_the_token(asking: Asking, what: str, token: str):
    body = json.dumps({"asked": {"law": LAW}, "do": "start"}).encode()
    sent = {TOKEN_HEADER: token.encode().decode("latin-1")} if token else {}
    status, content, _ = asking.request("POST", f"/api/{what}", body, **sent)
    assert (status, list(json.loads(content))) == (403, ["faults"])


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": f"evil.example:{1}"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://{HOST}"},
        {"Origin": f"http://{HOST}"},
        {"Origin": f"http://{HOST}:1"},
    ],
    ids=str,
)
def test_other_hosts_and_origins_are_refused(asking: Asking, headers: dict):
    for method, path in (("GET", "/"), ("GET", "/static/studio.js"), ("POST", "/api/start")):
        whole = {TOKEN_HEADER: asking.server.token} | headers
        address = f"{path}?token={asking.server.token}"
        assert asking.request(method, address, b"{}", **whole)[0] == 403


def test_its_own_origin_is_answered_by_both_names(asking: Asking):
    for name in (HOST, "localhost"):
        host = f"{name}:{asking.server.port}"
        headers = {"Host": host, "Origin": f"http://{host}", TOKEN_HEADER: asking.server.token}
        status, _, answer = asking.request("POST", "/api/start", b"{}", **headers)
        assert status == 200
        assert "Access-Control-Allow-Origin" not in answer


def test_it_listens_on_this_machine_only(asking: Asking):
    assert asking.server.server_address[0] == "127.0.0.1"


def test_the_size_of_a_question_is_limited(asking: Asking):
    token = {TOKEN_HEADER: asking.server.token}
    for length, status in ((str(MAX_BODY + 1), 413), ("-1", 411), ("x", 411), (str(10**30), 413)):
        assert (
            asking.request("POST", "/api/start", b"", Content_Length=length, **token)[0] == status
        )
    chunked = {"Transfer_Encoding": "chunked", "Content_Length": "2"}
    assert asking.request("POST", "/api/start", b"{}", **chunked, **token)[0] == 411


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"1", b"[" * 10_000])
def test_what_is_no_question_is_refused(asking: Asking, body: bytes):
    status, content, _ = asking.request(
        "POST", "/api/start", body, **{TOKEN_HEADER: asking.server.token}
    )
    assert status == 400
    assert json.loads(content)["faults"] == ["the question is not an object of JSON"]


PATHS = [
    *("/static/", "/static/../server.py", "/static/%2e%2e/server.py", "/etc/passwd", "/api/start"),
    *(
        "/static//etc/passwd",
        "//evil.example/static/studio.js",
        "/index.html",
        "/static/index.html",
    ),
    "/static/uplot-LICENSE.txt",
]


@pytest.mark.parametrize("path", PATHS)
def test_only_files_of_the_page_are_sent(asking: Asking, path: str):
    status, content, _ = asking.request("GET", path)
    assert (
        status == 404
        or content == (Path(serving.__file__).parent / "static/studio.js").read_bytes()
    )
    assert b"def " not in content
    assert b"root:" not in content


def test_every_file_of_the_page_is_sent_and_asks_no_other_host(asking: Asking):
    folder = Path(serving.__file__).parent / "static"
    assert {file.name for file in folder.iterdir()} == {*STATIC, "index.html", "uplot-LICENSE.txt"}
    for name in (*STATIC, "index.html"):
        content = (folder / name).read_text("utf-8")
        if name != "index.html":
            assert asking.request("GET", f"/static/{name}")[1].decode() == content
        links = re.findall(r"(?:https?:)?//[\w.-]+\.\w{2,}", content)
        assert set(links) <= {"https://github.com", "http://www.w3.org"}, name
        if name not in ("uplot.js", "icon.svg"):
            assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(", content), (
                name
            )


def test_other_methods_are_not_known(asking: Asking):
    for method in ("PUT", "DELETE", "OPTIONS", "HEAD"):
        assert asking.request(method, "/", **{TOKEN_HEADER: asking.server.token})[0] == 501


def test_a_failure_inside_is_a_sentence(asking: Asking, monkeypatch, capsys):
    def broken(_: dict) -> dict:
        raise RuntimeError(MARK)

    MARK = "secret detail"
    monkeypatch.setitem(asking.server.routes, "start", broken)  # type: ignore[arg-type]
    status, content, _ = asking.request(
        "POST", "/api/start", b"{}", **{TOKEN_HEADER: asking.server.token}
    )
    assert status == 500
    assert MARK not in content.decode()
    assert MARK in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(fedcell):
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BadInput, match=f"port {port} is taken"):
            StudioServer(Studio(None, ()), port)
        said = fedcell("studio", "--no-browser", "--port", port)
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert f"port {port} is taken, or may not be used: choose another --port" in said.err


def test_the_next_free_port_is_taken_where_none_is_asked_for(monkeypatch):
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        monkeypatch.setattr(serving, "PORT", other.getsockname()[1])
        server = StudioServer(Studio(None, ()))
        assert server.port > other.getsockname()[1]
        server.server_close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing-here"], "is no file and not a shipped scenario"),
        (["digits", "--pilot", "none.json"], "is no file: name a pilot"),
        (["digits", "--port", "70000"], "Invalid value"),
        ([".", "--pilot", "x.json"], "--pilot is for a scenario"),
    ],
)
def test_what_cannot_be_shown_is_said(fedcell, words: list, said: str):
    answer = fedcell("studio", *words, "--no-browser")
    assert answer.code == 2
    assert said in answer.err


def test_ctrl_c_ends_it(tmp_path):
    command = [sys.executable, "-m", "fedcell", "studio", "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert "http://127.0.0.1:" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode in (0, 130)
    assert "Traceback" not in out + err


def test_a_plan_of_another_scenario_with_the_name_is_taken_along_as_a_file(tmp_path, monkeypatch):
    from fedcell import GivenLaw, load_scenario, plan_training

    monkeypatch.chdir(tmp_path)
    narrow = load_scenario("digits").using(cell={"bandwidth": 1e6})
    plan_training(narrow, GivenLaw(**LAW)).named("digits").save("plan.json")
    with served("plan.json") as asking:
        words = asking("take", asked={"law": LAW}, what="words")
        assert words["needs"] == "digits-changed.toml"
        Path(words["needs"]).write_bytes(asking("take", asked={"law": LAW}, what="toml"))
        names: dict = {}
        exec(words["python"], names)
        here = asking("view", asked={"law": LAW}, page="a", number=1)["plan"]
    assert "digits-changed.toml" in words["command"]
    assert names["plan"].duration.value == here["duration"]["value"]


def test_a_world_of_a_plan_begins_with_it(tmp_path):
    from fedcell import GivenLaw, Limits, load_scenario, plan_training

    plan = plan_training(load_scenario("digits"), GivenLaw(**LAW), limits=Limits(deadline=100.0))
    plan.named("digits").save(tmp_path / "plan.json")
    with served(str(tmp_path / "plan.json")) as asking:
        start = asking("start")["planning"]
        assert start["start"]["law"] == LAW | {"dropped": 0.0}
        asked = {k: v for k, v in start["start"].items() if k != "law"} | {"law": LAW}
        again = asking("view", asked=asked, page="a", number=1)["plan"]
        words = asking("take", asked=asked, what="words")
        assert (words["needs"], words["command"].split()[:3]) == (
            None,
            ["fedcell", "plan", "digits"],
        )
    assert (again["cohort"], again["local_steps"]) == (plan.cohort, plan.local_steps)
    assert World.of(str(tmp_path / "plan.json")).pilot_file == tmp_path / "pilot-digits.json"
