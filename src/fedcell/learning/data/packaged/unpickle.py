"""Unpickle arrays without running what a pickle names.

A pickle is a program that calls whatever it names. This unpickler knows the names that an array
written by Python 2 needs. Each stands for a function of this module, and arrays are made from their
bytes here, not by the state that NumPy would restore.
"""

import io
import pickle
from collections.abc import Callable
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

KINDS = ("f8", "f4", "i8", "i4", "u1", "b1")  # of numbers; the bytes are in little-endian order
OBJECTS = ("O8", "O4", "O")


class ArrayUnpickler(pickle.Unpickler):
    """Makes plain values and arrays of numbers, and lists for arrays of objects; nothing else.

    Examples
    --------
    >>> import io, pickle
    >>> raw = pickle.dumps({"x": np.arange(3.0)}, protocol=2)
    >>> ArrayUnpickler(io.BytesIO(raw), encoding="latin1").load()["x"].values
    array([0., 1., 2.])
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return the function of this module for one of the known names."""
        known = KNOWN.get(f"{module}.{name}")
        if known is None:
            raise pickle.UnpicklingError(f"{module}.{name} is not the name of an array's part")
        return known


def unpickle_npy(raw: bytes) -> Any:
    """Return the one object that an .npy with pickled objects holds, with plain arrays.

    Parameters
    ----------
    raw : bytes
        The content of the file.

    Returns
    -------
    object
        Numbers, texts, lists, dictionaries and arrays of numbers.

    Raises
    ------
    ValueError
        If it holds anything else.
    """
    file = io.BytesIO(raw)
    np.lib.format.read_magic(file)
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    if shape != () or kind != np.dtype(object):
        raise ValueError("it does not hold one object")
    try:
        content = plain(ArrayUnpickler(file, encoding="latin1").load())
    except Exception as error:  # a bad pickle can fail in any way
        raise ValueError(f"its pickle is not one of arrays: {error}") from error
    if not isinstance(content, list) or len(content) != 1:
        raise ValueError("it does not hold one object")
    return content[0]


class Pickled:
    """An array that is being unpickled; its state says what it holds."""

    __slots__ = ("values",)

    values: NDArray[Any] | list[Any]

    def __setstate__(self, state: Any) -> None:
        version, shape, kind, by_columns, content = state
        count = prod(shape)
        if (
            version != 1
            or not isinstance(kind, Kind)
            or len(shape) > 2
            or min(shape, default=0) < 0
        ):
            raise pickle.UnpicklingError("an array of an unknown form")
        if kind.name in OBJECTS:
            if not isinstance(content, list) or len(content) != count:
                raise pickle.UnpicklingError("an array of objects of another length")
            self.values = content
            return
        raw = content.encode("latin1") if isinstance(content, str) else content
        if kind.name not in KINDS or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("an array of other things than numbers")
        flat = np.frombuffer(raw, f"<{kind.name}")
        if flat.size != count:
            raise pickle.UnpicklingError("an array of another length than its shape")
        self.values = flat.reshape(shape, order="F" if by_columns else "C")


class Kind:
    """The type of an array's elements that is being unpickled."""

    __slots__ = ("name",)

    def __init__(self, name: Any) -> None:
        self.name = str(name)

    def __setstate__(self, state: Any) -> None:
        if state[1] not in ("<", "|"):
            raise pickle.UnpicklingError("numbers in big-endian order")


class _Maker:
    """A function that a pickle may call; unlike a plain function, a pickle cannot change it."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *given: Any) -> Any:
        return self._make(*given)

    def __setstate__(self, _: Any) -> NoReturn:
        raise pickle.UnpicklingError("it changes what it may only call")


def _encode(text: Any, codec: Any) -> bytes:
    """Return bytes that Python 2 wrote as text."""
    if not isinstance(text, str) or codec != "latin1":
        raise pickle.UnpicklingError("bytes of an unknown encoding")
    return text.encode("latin1")


KNOWN: dict[str, _Maker] = {
    "numpy.core.multiarray._reconstruct": _Maker(lambda *_: Pickled()),
    "numpy._core.multiarray._reconstruct": _Maker(lambda *_: Pickled()),
    "numpy.ndarray": _Maker(lambda *_: None),  # only named
    "numpy.dtype": _Maker(lambda name, *_: Kind(name)),
    "_codecs.encode": _Maker(_encode),
}


def plain(value: Any) -> Any:
    """Return a value with arrays in place of `Pickled`; refuse other kinds of objects."""
    if isinstance(value, Pickled):
        return plain(value.values)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if value is None or isinstance(value, str | bytes | int | float | np.ndarray):
        return value
    raise ValueError(f"its pickle holds a {type(value).__name__}")
