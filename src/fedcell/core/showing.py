"""Results that show themselves: what every result has beside its values."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import BadInput


class Showable(ABC):
    """A result with `summary`, `plot` and `to_pandas`.

    How they look is decided in `show`, which is imported when it is asked for: the one use
    against the order of the rooms (DECISIONS.md, 36).
    """

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """The result as tidy rows of plain values."""

    def summary(self, **options: Any) -> str:
        """The result in words and tables, as the command line prints it; plans and pilots take
        `details=True`."""
        from fedcell.show.results import summary

        return summary(self, **options)

    def plot(
        self,
        path: str | Path | None = None,
        ax: Any = None,
        panel: str | None = None,
        **options: Any,
    ) -> Any:
        """The result as a matplotlib Figure, written to `path` (.png, .pdf or .svg) if given.

        With `ax`, one panel of it is drawn on these Axes of yours, in your style, and they are
        given back. `panel` says which, by name; a wrong one is answered with those that there are.
        """
        from fedcell.show.results import plot

        return plot(self, path, ax, panel, **options)

    def _repr_html_(self) -> str:
        """Return the summary as HTML, which notebooks show."""
        from fedcell.show.results import html

        return html(self)

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame, where pandas is installed."""
        try:
            import pandas
        except ImportError as error:
            raise BadInput("`to_pandas` needs pandas: pip install 'fedcell[pandas]'") from error
        return pandas.DataFrame(self.rows())


def rows_from(columns: Mapping[str, Sequence[Any]], index: str, first: int) -> list[dict[str, Any]]:
    """Columns as rows, each with its number, counted from `first`, under the name `index`."""
    lines = zip(*columns.values(), strict=True)
    named = (dict(zip(columns, line, strict=True)) for line in lines)
    return [{index: i, **row} for i, row in enumerate(named, first)]


def client_title(client: int, name: str | None) -> str:
    """What a client is called: its name, or its number."""
    return f"client {client}" if name is None else name


def shortened(text: str, most: int) -> str:
    """A text no longer than there is room for."""
    return text if len(text) <= most else text[: most - 3] + "..."
