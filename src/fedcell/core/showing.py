"""Base class of results, and words that results share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from .errors import BadInput


class Showable(ABC):
    """A result with `summary`, `plot` and `to_pandas`.

    The package `show` draws and formats them. It is imported on the first call: the one import
    against the order of the packages (DECISIONS.md, 36).
    """

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Return the result as tidy rows of plain values."""

    def summary(self, **options: Any) -> str:
        """Return the result in words and tables, as the command line prints it.

        Parameters
        ----------
        **options
            Plans and pilots take `details=True`.

        Returns
        -------
        str
            Text of several lines.
        """
        from fedcell.show.results import summary

        return summary(self, **options)

    def plot(
        self,
        path: str | Path | None = None,
        ax: Any = None,
        panel: str | None = None,
        **options: Any,
    ) -> Any:
        """Draw the result.

        Parameters
        ----------
        path : str or Path, optional
            File to write: .png, .pdf or .svg.
        ax : matplotlib.axes.Axes, optional
            Axes to draw one panel on, in their style, instead of a new figure.
        panel : str, optional
            Name of the panel for `ax`. A wrong name is refused with the known ones.
        **options
            Options of this kind of result.

        Returns
        -------
        matplotlib.figure.Figure or matplotlib.axes.Axes
            The new figure, or `ax`.
        """
        from fedcell.show.drawing import plot

        return plot(self, path, ax, panel, **options)

    def _repr_html_(self) -> str:
        """Return the summary as HTML, which notebooks show."""
        from fedcell.show.results import html

        return html(self)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame; needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise BadInput("`to_pandas` needs pandas: pip install 'fedcell[pandas]'") from error
        return pandas.DataFrame(self.rows())


def rows_from(columns: Mapping[str, Sequence[Any]], index: str, first: int) -> list[dict[str, Any]]:
    """Return columns as rows, each numbered from `first` under the name `index`."""
    lines = zip(*columns.values(), strict=True)
    named = (dict(zip(columns, line, strict=True)) for line in lines)
    return [{index: i, **row} for i, row in enumerate(named, first)]


def client_title(client: int, name: str | None) -> str:
    """Return the name of a client, or its number where it has none."""
    return f"client {client}" if name is None else name


def shortened(text: str, most: int) -> str:
    """Return a text cut to `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def value_range(values: Any, unit: str = "") -> str:
    """Return the smallest and the largest of some numbers with their unit, NaN left out.

    >>> value_range([3.0, 1.0, float("nan")], "s"), value_range([2.0], "J")
    ('1 to 3 s', '2 J')
    """
    numbers = np.asarray(values, float)
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return "none"
    ends = dict.fromkeys(f"{number:.4g}" for number in (numbers.min(), numbers.max()))
    return " to ".join(ends) + (f" {unit}" if unit else "")


def described_axes(shape: tuple[int, ...]) -> str:
    """Return the shape of arrays with clients on the last axis in words.

    >>> described_axes((3,)), described_axes((20, 1)), described_axes((2, 20, 3))
    ('3 clients', '20 rounds of 1 client', '2 x 20 rounds of 3 clients')
    """
    clients = f"{shape[-1]} client" + "s" * (shape[-1] != 1)
    if len(shape) == 1:
        return clients
    rounds = " x ".join(map(str, shape[:-1]))
    return f"{rounds} round{'s' * (rounds != '1')} of {clients}"


def given_fields(value: Any) -> str:
    """Return a value as the call that makes it, without the fields that have their default."""
    given = [
        f"{field.name}={getattr(value, field.name)!r}"
        for field in fields(value)
        if getattr(value, field.name) != field.default
    ]
    return f"{type(value).__name__}({', '.join(given)})"
