"""exchanges.csv as it grows, is cut, changed or removed."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.deploy.exchanges import (
    COLUMNS,
    EXCHANGES,
    Exchange,
    ExchangeFile,
    Outcome,
    past_exchanges,
    read_exchanges,
)
from fedcell.errors import BadFile

PRINTABLE = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20)
LINE = st.builds(
    Exchange,
    round=st.integers(0, 9),
    client=st.one_of(st.none(), st.integers(0, 99)),
    name=PRINTABLE,
    outcome=st.sampled_from(Outcome),
    why=PRINTABLE,
    share=st.one_of(st.none(), st.floats(0, 1)),
    measured_total=st.one_of(st.none(), st.floats(0, 1e9)),
    measured_bytes_received=st.one_of(st.none(), st.integers(0, 2**40)),
)


@given(st.lists(LINE, max_size=5))
def test_exchanges_are_read_as_they_were_written(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("exchanges")
    file = ExchangeFile(folder)
    assert file.begin(0) == []
    file.add(lines)
    assert read_exchanges(folder) == lines


def some(round):
    """A line of a round."""
    return Exchange(round=round, client=1, name="pump", outcome="arrived", share=0.5)


def test_a_line_that_a_kill_has_cut_is_passed_over_and_mended(tmp_path):
    file = ExchangeFile(tmp_path)
    file.begin(0)
    file.add([some(1), some(2)])
    path = tmp_path / EXCHANGES
    path.write_bytes(path.read_bytes()[:-7])
    assert read_exchanges(tmp_path) == [some(1)]
    assert file.begin(2) == [some(1)]
    file.add([some(2)])
    assert read_exchanges(tmp_path) == [some(1), some(2)]


def test_a_resumed_run_keeps_the_rounds_that_are_done(tmp_path):
    file = ExchangeFile(tmp_path)
    file.begin(0)
    file.add([some(0), some(1), some(2), some(3)])
    assert file.begin(2) == [some(0), some(1), some(2)]
    assert read_exchanges(tmp_path) == [some(0), some(1), some(2)]


@pytest.mark.parametrize("gone", [Path.unlink, lambda path: path.write_text("x\n")])
def test_a_file_of_exchanges_that_was_removed_or_changed_is_written_again(tmp_path, gone):
    file = ExchangeFile(tmp_path)
    file.begin(0)
    file.add([some(1)])
    gone(tmp_path / EXCHANGES)
    file.add([some(2)])
    assert read_exchanges(tmp_path) == [some(1), some(2)]
    shutil.rmtree(tmp_path)
    assert past_exchanges(tmp_path) == []
    file.add([some(3)])
    assert read_exchanges(tmp_path) == [some(1), some(2), some(3)]


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n", ",".join(COLUMNS) + "\n1,2\n", ",".join(COLUMNS) + "\n" + "x," * 15 + "x\n"],
)
def test_a_damaged_file_of_exchanges_is_refused_with_a_sentence(tmp_path, text):
    (tmp_path / EXCHANGES).write_text(text)
    with pytest.raises(BadFile, match="is damaged"):
        read_exchanges(tmp_path)
