"""Devices that report false scores and seconds, or take the name of another."""

from pathlib import Path

import numpy as np
import pytest

from fedcell import Scenario, Target, load_run
from fedcell.deploy import FederationOptions
from fedcell.deploy.exchanges import collapse_of, load_exchanges, read_exchanges
from fedcell.deploy.scores import read_scores
from fedcell.errors import BadFile, BadInput

pytestmark = [
    pytest.mark.flower,
    pytest.mark.filterwarnings("ignore::fedcell.core.errors.FedcellWarning"),
]
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from cryptography.hazmat.primitives.serialization import (  # noqa: E402
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell.deploy.keys import read_keys  # noqa: E402
from fedcell.deploy.server import link as link_module  # noqa: E402
from fedcell.deploy.server import roster as roster_module  # noqa: E402
from fedcell.deploy.server.run import run_federation  # noqa: E402
from fedcell.deploy.wire.arrays import array_record  # noqa: E402
from support.certificates import node_key  # noqa: E402
from support.federations import federation_arguments  # noqa: E402
from support.grids import MemoryGrid  # noqa: E402

COUNT, SAMPLES = 4, (10, 20, 30, 40)
FIRST = {"w": np.array([1.0, 2.0], np.float32)}
WORLD = Scenario().using(
    clients={"count": COUNT},
    plan={"cohort": COUNT},
    cell={"gain_threshold": 0.0},
    task={"cycles_per_sample": 1e6, "batch_size": 5},
)
HONEST = {"loss": 0.5, "accuracy": 0.25}


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages can be made inside a run of Flower only; polls are short."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setattr(roster_module, "POLL", 0.01)
    monkeypatch.setattr(link_module, "ASK_AGAIN_AFTER", 0.05)


def pump(place, scores=HONEST, said=None, times=0.9, name=None, clock=None):
    """A device that shrinks the model, and reports these scores and metrics."""

    def node(message, _seconds):
        match message.metadata.message_type:
            case "query":
                profile = {"name": name or f"pump-{place}", "client": place}
                profile |= {"samples": SAMPLES[place]} | ({} if clock is None else {"clock": clock})
                records = {"profile": ConfigRecord(profile)}
            case "train":
                w = message.content["arrays"]["w"].numpy()
                metrics = {"num-examples": SAMPLES[place], **(said or {})}
                with np.errstate(over="ignore"):
                    arrays = {"w": (times * w).astype(np.float32)}
                records = {"arrays": array_record(arrays), "metrics": MetricRecord(metrics)}
            case _:
                w = message.content["arrays"]["w"].numpy()
                own = scores(w) if callable(scores) else scores
                records = {"metrics": MetricRecord(dict(own))}
        return [Message(RecordDict(records), reply_to=message)]

    return node


def fleet(**liars):
    """Devices, some of them liars: by place, as `pump_3={"times": 9}`."""
    return MemoryGrid({100 + j: pump(j, **liars.get(f"pump_{j}", {})) for j in range(COUNT)})


def carried_out(grid, folder=None, rounds=2, **more):
    """A run over a grid, judged by its devices."""
    known = {"deadline": 60.0, "join_timeout": 120.0, "arrays": FIRST, **more}
    arguments = federation_arguments(**known)
    return run_federation(grid, WORLD, rounds=rounds, folder=folder, **arguments)


@pytest.mark.parametrize(
    ("lie", "target"),
    [
        ({"loss": 0.5, "accuracy": 1.0, "num-examples": 10**9}, Target(accuracy=0.9, hold=1)),
        ({"loss": 0.0, "accuracy": 0.25}, Target(loss=0.3, hold=1)),
    ],
)
def test_liar_does_not_end_a_run_at_its_target(lie, target, tmp_path):
    result = carried_out(fleet(pump_3={"scores": lie}), tmp_path / "run", target=target)
    assert result.state.rounds == 2
    (ledger,) = result.ledgers.values()
    assert ledger.rounds_to(target) is None
    assert ledger.train_loss.tolist() == [0.5, 0.5]
    assert ledger.accuracy.tolist() == [0.25, 0.25]
    rows = read_scores(tmp_path / "run")
    assert [row.round for row in rows] == [0, 1, 2]
    plain = {(row.plain_train_loss, row.plain_accuracy) for row in rows}
    weight = 0.4  # 40 of 100 samples, as it was introduced
    ((loss, accuracy),) = plain
    assert loss == pytest.approx(0.5 + weight * (lie["loss"] - 0.5))
    assert accuracy == pytest.approx(0.25 + weight * (lie["accuracy"] - 0.25))


def test_lone_accuracy_is_no_target_to_reach():
    """Those of the ready app report a loss only: one that says 1.0 speaks for itself."""
    others = {f"pump_{j}": {"scores": {"loss": 0.5}} for j in range(3)}
    grid = fleet(**others, pump_3={"scores": {"loss": 0.5, "accuracy": 1.0}})
    with pytest.raises(BadInput, match=r"but there is no test data to measure it on"):
        carried_out(grid, target=Target(accuracy=0.9))


def test_scores_of_a_resumed_run_have_one_line_for_each_round(tmp_path):
    carried_out(fleet(), tmp_path / "run", rounds=2)
    carried_out(fleet(), tmp_path / "run", rounds=4, resume=True)
    assert [row.round for row in read_scores(tmp_path / "run")] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("claim", [1.7e308, 1e60, 1e9, float("inf"), float("nan"), -5.0])
def test_claimed_seconds_are_bounded_by_the_clock_of_the_server(claim, tmp_path):
    liar = {"said": {"training-seconds": claim, "freq": claim}, "clock": 1e60}
    carried_out(fleet(pump_1=liar), tmp_path / "run")
    for row in read_exchanges(tmp_path / "run"):
        parts = (row.measured_training, row.measured_upload, row.measured_waiting)
        known = [seconds for seconds in parts if seconds is not None]
        assert sum(known) <= row.measured_total * (1 + 1e-9)
        assert row.measured_total < 600
    report = load_exchanges(tmp_path / "run")
    report.plot(tmp_path / "it.png")
    assert (tmp_path / "it.png").stat().st_size > 10_000


def test_collapsed_model_is_a_failure(tmp_path):
    def loss(w):
        return {"loss": float((w.astype(float) ** 2).sum())}

    liars = {f"pump_{j}": {"scores": loss} for j in range(3)}
    grid = fleet(**liars, pump_3={"scores": loss, "times": 1e37})
    result = carried_out(grid, tmp_path / "run", rounds=3)
    assert not np.isfinite(result.state.last_loss)
    said = collapse_of(load_run(tmp_path / "run"))
    assert said == collapse_of(result)
    assert said.startswith("the training loss is not a number from round 1 to the last, 3: ")
    assert collapse_of(carried_out(fleet())) is None
    screened = FederationOptions(deadline=60.0, screen="exclude")
    assert collapse_of(carried_out(grid, rounds=3, options=screened)) is None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"screen": "clip"}, "screen = exclude, and is to be resumed with screen = clip"),
        ({"policy": "even"}, "policy = distributed, and is to be resumed with policy = even"),
        ({"screen_factor": 5.0}, "screen_factor = 3.0, and is to be resumed with screen_factor"),
    ],
)
def test_resume_with_another_choice_is_refused(settings, why, tmp_path):
    known = {"deadline": 60.0, "screen": "exclude"}
    carried_out(fleet(), tmp_path / "run", options=FederationOptions(**known))
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    other = FederationOptions(**known | settings)
    with pytest.raises(BadFile) as refused:
        carried_out(MemoryGrid({}), tmp_path / "run", rounds=4, resume=True, options=other)
    assert why in str(refused.value)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    again = carried_out(
        fleet(), tmp_path / "run", rounds=4, resume=True, options=FederationOptions(**known)
    )
    assert again.state.rounds == 4


def test_listeners_of_settings_hear_of_exchanges_and_scores():
    heard, scores = [], []
    settings = FederationOptions(deadline=60.0, on_exchanges=heard.extend, on_scores=scores.extend)
    carried_out(fleet(), options=settings)
    assert [e.outcome for e in heard].count("arrived") == 2 * COUNT
    assert [row.round for row in scores] == [0, 1, 2]


# Names and keys.


def listed(folder, count=COUNT):
    """A table of keys, and the keys as the SuperLink has them, by place."""
    lines, pems = ["name,key"], []
    for j in range(count):
        _, public = node_key(folder, f"key-{j}")
        text = public.read_text()
        lines.append(f"pump-{j},{text.strip()} user@host")
        key = load_ssh_public_key(text.encode())
        pems.append(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    path = folder / "keys.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, pems


def test_device_with_the_name_of_another_is_refused_by_its_key(tmp_path):
    path, pems = listed(tmp_path, COUNT + 1)
    grid = fleet()
    grid.keys = {100 + j: pems[j] for j in range(COUNT)}
    honest = dict(grid.nodes)
    grid.nodes = {1: pump(0, times=1e9), 2: pump(0, times=1e9, name="stranger"), **honest}
    grid.keys[1] = pems[COUNT]  # registered, and not that of pump-0
    carried_out(grid, tmp_path / "run", keys=path)
    refused = {e.name: e.why for e in read_exchanges(tmp_path / "run") if e.outcome == "refused"}
    assert "another key for pump-0" in refused["pump-0"]
    assert "stranger is not in the table of keys" in refused["stranger"]
    arrived = [e for e in read_exchanges(tmp_path / "run") if e.outcome == "arrived"]
    assert len(arrived) == 2 * COUNT
    assert np.abs(load_run(tmp_path / "run").state.model).max() < 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no table"),
        ("name\npump\n", "has other columns than name,key"),
        ("name,key\n", "lists no device"),
        ("name,key\npump,ssh-rsa\n", "line 2: pump has no public key"),
        ("name,key\npump\n", "line 2: has no name and key"),
        ("name,key\n,x\n", "line 2: has no name and key"),
        ("name,key\n{0}\n{0}\n", "line 3: the name or the key of pump-0 is listed twice"),
        ("name,key\n{0}\nother,{1}\n", "line 3: the name or the key of other is listed twice"),
    ],
)
def test_an_invalid_table_of_keys_gets_one_sentence(text, why, tmp_path):
    path, _ = listed(tmp_path, 1)
    line = path.read_text().splitlines()[1]
    path.write_text(text.format(line, line.partition(",")[2]))
    with pytest.raises(BadFile, match=why) as refused:
        read_keys(path)
    assert len(refused.value.faults) == 1
    with pytest.raises(BadFile, match="cannot be read"):
        read_keys(Path(tmp_path / "nowhere.csv"))
