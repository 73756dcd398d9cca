"""What the devices of a federation and of a testbed did, printed and as values."""

import json
import math
from dataclasses import replace
from statistics import median

import numpy as np
import pytest

from fedcell.deploy.exchanges import (
    COLUMNS,
    EXCHANGES,
    Exchange,
    ExchangeFile,
    ExchangeReport,
    load_exchanges,
)
from fedcell.deploy.testbed import uploads as testbeds
from fedcell.errors import BadFile
from support.printed import four_digits, tables


def line(round, client, outcome="arrived", why="", **more):
    """A device in a round; whatever is measured grows with the round."""
    values = {
        "share": 0.25,
        "freq": 1e9,
        "modelled_training": 0.1 * (client + 1),
        "modelled_upload": 0.5 + 0.125 * client + round,
        "modelled_energy": 0.01 * round,
        "measured_training": 0.3 + 0.01 * round,
        "measured_upload": 0.7 + 0.25 * client + round,
        "measured_waiting": 3.0 + round,
        "measured_total": 4.0 + 2 * round,
        "measured_bytes_sent": 1_000_000,
        "measured_bytes_received": 1_500_000,
        **more,
    }
    return Exchange(
        round=round, client=client, name=f"pump-{client}", outcome=outcome, why=why, **values
    )


NOTHING = dict.fromkeys(
    ("measured_training", "measured_upload", "measured_waiting", "measured_total")
)
LINES = [
    Exchange(round=0, client=None, name="pump-0", outcome="introduced", measured_total=0.5),
    Exchange(round=0, client=None, name="pump-1", outcome="introduced", measured_total=0.5),
    Exchange(round=0, client=None, name="", outcome="refused", why="it has no name"),
    line(1, 0),
    line(1, 1, "lost", "drawn as lost (cell.loss_rate)"),
    line(2, 0, "clipped", "its update is 5 times as long as the median one"),
    line(2, 1, "late", "no answer within 5 s", **NOTHING, measured_bytes_received=None),
    line(3, 0),
    line(3, 0, "duplicate", "replied 1 times more: the first reply is taken"),
    line(3, 1, "failed", "raised an error: [red]no[/red] pump", **NOTHING),
    Exchange(round=4, client=1, name="pump-1", outcome="introduced", why="came back"),
    line(4, 0, "not finite", "holds numbers that are not finite"),
    line(4, 1),
]
REPORT = ExchangeReport(exchanges=tuple(LINES))
DEVICES = "Devices by the model: medians of a round"
CLOCK = "The same by the clock"


@pytest.fixture
def folder(tmp_path):
    """A folder with these exchanges."""
    file = ExchangeFile(tmp_path)
    file.begin(0)
    file.add(LINES)
    return tmp_path


def test_outcomes_are_counted_without_introductions():
    assert REPORT.rounds == 4
    assert REPORT.outcomes == {
        "refused": 1,
        "arrived": 3,
        "lost": 1,
        "clipped": 1,
        "late": 1,
        "duplicate": 1,
        "failed": 1,
        "not finite": 1,
    }


def test_events_are_what_did_not_go_as_it_should():
    told = [(e.round, e.outcome) for e in REPORT.events]
    assert told == [
        (0, "refused"),
        (2, "clipped"),
        (2, "late"),
        (3, "duplicate"),
        (3, "failed"),
        (4, "introduced"),
        (4, "not finite"),
    ]


def test_a_device_is_medians_of_what_came_and_sums_of_what_it_was_called_to():
    one, other = REPORT.devices()
    assert (one.client, one.name, one.called, one.arrived) == (0, "pump-0", 4, 3)
    assert (other.client, other.name, other.called, other.arrived) == (1, "pump-1", 4, 1)
    assert one.measured_upload == median([1.7, 2.7, 3.7, 4.7])
    assert one.modelled_upload == median([1.5, 2.5, 3.5, 4.5])
    assert one.modelled_energy == pytest.approx(0.1)
    assert one.measured_bytes == 4 * 2_500_000  # not of the second answer
    assert other.measured_training == pytest.approx(0.325)  # lost and arrived
    assert other.measured_waiting == median([4.0, 7.0])
    assert other.modelled_training == 0.2
    assert other.measured_bytes == 3 * 2_500_000 + 1_000_000


def test_a_device_that_never_answered_has_no_times():
    late = [line(t, 0, "late", **NOTHING, measured_bytes_received=None) for t in (1, 2)]
    (device,) = ExchangeReport(exchanges=tuple(late)).devices()
    assert (device.called, device.arrived, device.measured_upload) == (2, 0, None)
    assert (
        "-" in tables(ExchangeReport(exchanges=tuple(late)).summary())[CLOCK].columns["train [s]"]
    )


def test_printed_values_are_those_of_the_report(fedcell, folder):
    said = fedcell("exchanges", folder)
    answer = json.loads(fedcell("exchanges", folder, "--json").out)
    assert said.code == 0
    printed, devices = tables(said.out), answer["devices"]
    model, clock = printed[DEVICES].columns, printed[CLOCK].columns
    columns = {
        "called": "called",
        "counted": "arrived",
        "train [s]": "modelled_training",
        "upload [s]": "modelled_upload",
        "energy in all [J]": "modelled_energy",
    }
    for heading, key in columns.items():
        assert model[heading] == [four_digits(device[key]) for device in devices], heading
    columns = {
        "train [s]": "measured_training",
        "upload [s]": "measured_upload",
        "waiting [s]": "measured_waiting",
    }
    for heading, key in columns.items():
        assert clock[heading] == [four_digits(device[key]) for device in devices], heading
    megabytes = [four_digits(device["measured_bytes"] / 1e6) for device in devices]
    assert clock["in all [MB]"] == megabytes
    assert model["device"] == clock["device"] == ["pump-0", "pump-1"]
    counts = ", ".join(f"{count} {what}" for what, count in answer["outcomes"].items())
    assert f"outcomes of the calls of {answer['rounds']} rounds: {counts}" in flat(said.out)
    for event in answer["events"]:
        assert event["why"] in flat(said.out)
    assert "round 3: pump-1 was failed: raised an error: [red]no[/red] pump" in flat(said.out)
    assert "round 4: pump-1 was introduced: came back" in said.out
    assert "round 0: a node was refused: it has no name" in said.out


def flat(text):
    """Without the ends of lines."""
    return " ".join(text.split())


def test_the_folder_tells_what_was_written(folder):
    assert list(load_exchanges(folder).exchanges) == LINES
    assert load_exchanges(str(folder)).to_dict() == REPORT.to_dict()


def test_many_devices_and_events_are_cut_and_counted():
    lines = [line(1, j, "late", "no answer within 5 s", **NOTHING) for j in range(60)]
    words = ExchangeReport(exchanges=tuple(lines)).summary()
    assert len(tables(words)[DEVICES].columns["device"]) == 50
    assert "and 10 more\n" in words
    assert "and 40 more events: 40 late" in words


def test_a_federation_that_called_no_device():
    empty = ExchangeReport(exchanges=tuple(LINES[:2]))
    assert "outcomes of the calls of 0 rounds: no client was called" in empty.summary()
    assert repr(empty) == "<ExchangeReport, 0 rounds: no device was called>"
    assert repr(REPORT).startswith("<ExchangeReport, 4 rounds: 1 refused, 3 arrived")
    assert empty.plot().axes[0].get_xlabel() == "upload by the model [s]"


def test_rows_are_the_columns_of_the_file():
    assert [tuple(row) for row in REPORT.rows()] == [COLUMNS] * len(LINES)


def points(panel, label=None):
    """The points of a panel, those of a label if there is one."""
    drawn = [c for c in panel.collections if label is None or c.get_label() == label]
    return [tuple(point) for point in np.asarray(drawn[0].get_offsets())]


def test_the_figure_has_every_upload_that_came_and_where_the_time_went():
    uploads, devices = REPORT.plot().axes
    came = [e for e in LINES if e.outcome in ("arrived", "lost", "clipped", "not finite")]
    assert points(uploads) == [(e.modelled_upload, e.measured_upload) for e in came]
    heights = {bar.get_label(): [p.get_height() for p in bar] for bar in devices.containers}
    for part in ("waiting", "training", "upload"):
        expected = [getattr(device, f"measured_{part}") for device in REPORT.devices()]
        assert heights[part] == pytest.approx(expected)
    tops = [bar.get_y() + bar.get_height() for bar in devices.containers[-1]]
    whole = [d.measured_waiting + d.measured_training + d.measured_upload for d in REPORT.devices()]
    assert tops == pytest.approx(whole)
    assert [tick.get_text() for tick in devices.get_xticklabels()] == ["pump-0", "pump-1"]
    assert devices.get_ylim()[1] > max(tops)


def test_names_in_the_figure_are_text_and_no_formulas(tmp_path):
    strange = [replace(e, name="$\\frac{$" + e.name) for e in LINES]
    ExchangeReport(exchanges=tuple(strange)).plot(tmp_path / "it.svg")
    assert (tmp_path / "it.svg").stat().st_size > 1000


def test_a_figure_is_drawn_where_it_is_asked_for(fedcell, folder):
    said = fedcell("exchanges", folder, "--figure", folder / "a.png")
    assert said.code == 0
    assert "figure: " in said.out
    assert (folder / "a.png").stat().st_size > 10_000
    refused = fedcell("exchanges", folder, "--figure", folder / "a.exe")
    assert (refused.code, refused.out) == (2, "")


def one_sentence(said):
    """What is said of something that cannot be."""
    assert (said.code, said.out) == (2, "")
    (sentence,) = said.err.splitlines()
    assert sentence.startswith("fedcell: ")
    return sentence


def test_a_folder_without_exchanges_is_named(fedcell, tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        said = one_sentence(fedcell("exchanges", place))
        assert said.endswith(
            f"{place}: holds no exchanges.csv: name the folder of a run on a federation"
        )
    (tmp_path / "seed0").mkdir()
    (tmp_path / "seed0" / "run.json").write_text("{}")
    assert "exchanges.csv" in one_sentence(fedcell("exchanges", tmp_path))
    with pytest.raises(BadFile, match=r"holds no exchanges\.csv"):
        load_exchanges(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"nothing\n",
        b"\xff\xfe\x00",
        b",".join(c.encode() for c in COLUMNS) + b"\nx,0,a,arrived" + b"," * 12 + b"\n",
        b",".join(c.encode() for c in COLUMNS) + b"\n1,0,a,melted" + b"," * 12 + b"\n",
        b",".join(c.encode() for c in COLUMNS) + b"\n1,0\n",
    ],
)
def test_a_damaged_file_is_one_sentence(fedcell, tmp_path, damage):
    (tmp_path / EXCHANGES).write_bytes(damage)
    said = one_sentence(fedcell("exchanges", tmp_path))
    assert f"{EXCHANGES}: is damaged" in said


def test_invalid_numbers_are_reported_as_damage(fedcell, folder):
    """fedcell writes none, and figures and medians would be wrong with them."""
    text = (folder / EXCHANGES).read_text()
    for strange in ("nan", "inf", "-1.7"):
        (folder / EXCHANGES).write_text(text.replace(",1.7,", f",{strange},"))
        assert "is damaged" in one_sentence(fedcell("exchanges", folder))


def test_texts_that_act_on_a_terminal_are_damage(fedcell, tmp_path):
    for why, name in (("\x1b]0;owned\x07", "pump"), ("late", "a\x1b[31mb")):
        file = ExchangeFile(tmp_path)
        (tmp_path / EXCHANGES).unlink(missing_ok=True)
        file.begin(0)
        file.add([replace(line(1, 0, "late", why), name=name)])
        assert "is damaged" in one_sentence(fedcell("exchanges", tmp_path))


# Testbeds.


def upload(round, client, factor, flower=1.0, training=0.5):
    """An upload with a link that took this many times as long as modelled."""
    modelled = 2.0 + client + round
    return testbeds.MeasuredUpload(
        round=round,
        client=client,
        name=f"client-{client}",
        rate=1e6 * (client + 1),
        cpu=0.25 * (client + 1),
        modelled=modelled,
        link=modelled * factor,
        bytes=1_000_000,
        flower=modelled * factor + flower,
        modelled_training=0.4,
        training=training,
    )


UPLOADS = (
    upload(2, 1, 1.20, 3.0),
    upload(1, 0, 0.95, 1.0),
    upload(1, 1, 1.04, 2.0, 0.3),
    upload(2, 0, 1.06, 4.0),
)
BED = testbeds.TestbedReport(uploads=UPLOADS, bits=8e6, policy="even", limited=True)
SHAPED = "Uploads of 8 Mbit over shaped links, policy even"


def test_errors_of_a_testbed_are_medians_without_sign():
    assert [u.error for u in UPLOADS] == pytest.approx([0.2, -0.05, 0.04, 0.06])
    assert BED.median_error == pytest.approx(0.055)
    assert BED.worst_error == pytest.approx(0.2)
    assert BED.overhead == pytest.approx(2.5)
    assert BED.training_error == pytest.approx(0.25)
    assert repr(BED) == "<TestbedReport, 4 uploads: 5.5 % off in the median>"


def test_what_was_not_measured_is_in_no_median():
    some = (*UPLOADS, replace(upload(3, 0, 1.5), flower=math.nan, training=math.nan))
    for order in (some, some[::-1]):
        report = replace(BED, uploads=order)
        assert report.overhead == pytest.approx(2.5)
        assert report.training_error == pytest.approx(0.25)
        assert report.median_error == pytest.approx(0.06)


def test_a_printed_testbed_has_the_values_of_the_report():
    printed, answer = tables(BED.summary()), BED.to_dict()
    rows = answer["uploads"]
    assert [(r["round"], r["client"]) for r in rows] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    shown = printed[SHAPED].columns
    assert shown["round"] == [str(r["round"]) for r in rows]
    assert shown["device"] == [r["name"] for r in rows]
    for heading, key, scale in (
        ("link [Mbit/s]", "rate", 1e-6),
        ("model [s]", "modelled", 1),
        ("on the link [s]", "link", 1),
        ("Flower adds [s]", "overhead", 1),
    ):
        assert shown[heading] == [four_digits(scale * r[key]) for r in rows], heading
    assert shown["off [%]"] == ["-5.0", "+4.0", "+6.0", "+20.0"]
    training = printed["Training on limited processors"].columns
    assert training["of a processor [%]"] == ["25", "50", "25", "50"]
    assert training["clock [s]"] == [four_digits(r["training"]) for r in rows]
    assert "5.5 %" in flat(BED.summary())
    assert "20.0 % at most" in flat(BED.summary())
    assert f"Flower adds {answer['flower_overhead']:.2g} s" in flat(BED.summary())
    assert "training is 25 % off in the median" in flat(BED.summary())
    json.dumps(answer)


def test_a_testbed_without_limits_or_uploads_says_so():
    free = replace(BED, limited=False)
    assert "processors could not be limited here" in flat(free.summary())
    assert "Training on limited processors" not in free.summary()
    assert math.isnan(free.training_error)
    nothing = replace(BED, uploads=())
    assert nothing.summary().strip() == "no upload came"
    assert math.isnan(nothing.median_error)
    assert math.isnan(nothing.worst_error)
    assert nothing.rows() == []
    assert len(nothing.plot().axes) == 2


def test_the_picture_of_a_testbed_has_every_upload_and_its_error():
    times, errors = BED.plot().axes
    assert points(times, "on the link") == [(u.modelled, u.link) for u in UPLOADS]
    assert points(times, "with Flower's own") == [(u.modelled, u.flower) for u in UPLOADS]
    found = [p for p in errors.collections if len(p.get_offsets()) == 4]
    drawn = np.asarray(found[0].get_offsets())
    assert drawn[:, 0] == pytest.approx([u.rate / 1e6 for u in UPLOADS])
    assert drawn[:, 1] == pytest.approx([100 * u.error for u in UPLOADS])
    low, high = errors.get_ylim()
    assert low < -20 < 20 < high
