"""Sizes of LoRA adapters and the seconds of their uploads, from the shapes of layers.

A matrix of n inputs and m outputs gets an adapter of rank r: two factors with r (n + m) weights
(Hu et al., LoRA, arXiv 2106.09685, Section 4.1).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fedcell.core.errors import BadInput

BITS = 16  # of a weight, as large models are usually kept
RATES = (1e6, 1e7)  # [bit/s] of an upload


@dataclass(frozen=True)
class Matrix:
    """Matrices of a model that get an adapter, all of one shape.

    Attributes
    ----------
    name : str
        Their name in the model, as q_proj.
    inputs, outputs : int
        n and m.
    count : int
        How many there are: one for each layer of a transformer.
    """

    name: str
    inputs: int
    outputs: int
    count: int = 1


@dataclass(frozen=True)
class AdaptedModel:
    """A published model, the matrices that are usually adapted, and a usual rank.

    Attributes
    ----------
    name : str
        Its name.
    matrices : tuple of Matrix
        What gets adapters.
    rank : int
        r.
    shapes : str
        Where the shapes come from.
    """

    name: str
    matrices: tuple[Matrix, ...]
    rank: int
    shapes: str

    @classmethod
    def attention(cls, name: str, rank: int, shape: tuple[int, int, int], shapes: str) -> Any:
        """Return a transformer whose projections of queries and values are adapted.

        Parameters
        ----------
        name : str
            Its name.
        rank : int
            r.
        shape : tuple of int
            Layers, width, and width of the values: heads of keys and values x size of a head.
        shapes : str
            Where these come from.
        """
        layers, width, values = shape
        queries = Matrix("q_proj", width, width, layers)
        return cls(name, (queries, Matrix("v_proj", width, values, layers)), rank, shapes)

    @property
    def weights(self) -> int:
        """Weights of all adapters at the usual rank."""
        return adapter_weights(self.matrices, self.rank)


# Ranks: Mistral-7B as the template of Flower's FlowerTune leaderboard; RoBERTa-base as in the LoRA
# paper (Table 2, 0.3 M trainable weights); the others are common choices for models of their size.
MODELS: tuple[AdaptedModel, ...] = (
    AdaptedModel.attention(
        "Mistral-7B", 32, (32, 4096, 8 * 128), "config.json of mistralai/Mistral-7B-v0.1"
    ),
    AdaptedModel.attention(
        "Llama-3.2-1B", 16, (16, 2048, 8 * 64), "config.json of meta-llama/Llama-3.2-1B"
    ),
    AdaptedModel.attention(
        "Qwen2.5-0.5B", 8, (24, 896, 2 * 64), "config.json of Qwen/Qwen2.5-0.5B"
    ),
    AdaptedModel.attention(
        "RoBERTa-base", 8, (12, 768, 768), "arXiv 1907.11692: 12 layers of width 768"
    ),
    AdaptedModel.attention(
        "ViT-B", 8, (12, 768, 768), "arXiv 2010.11929, Table 1: 12 layers of width 768"
    ),
)


def adapter_weights(matrices: Iterable[Matrix], rank: int) -> int:
    """Return the number of weights of adapters, the sum of r (n + m).

    Parameters
    ----------
    matrices : iterable of Matrix
        What gets adapters.
    rank : int
        r, from 1; of a matrix at most its smaller side.

    Returns
    -------
    int

    Examples
    --------
    >>> adapter_weights([Matrix("q_proj", 768, 768, 12), Matrix("v_proj", 768, 768, 12)], rank=8)
    294912
    """
    matrices = tuple(matrices)
    for matrix in matrices:
        check_rank(rank, matrix.inputs, matrix.outputs, matrix.name)
    return sum(rank * (each.inputs + each.outputs) * each.count for each in matrices)


def adapter_bits(matrices: Iterable[Matrix], rank: int, bits: float = BITS) -> float:
    """Return the size of an upload of adapters: z = b times the sum of r (n + m) [bit].

    Parameters
    ----------
    matrices : iterable of Matrix
        What gets adapters.
    rank : int
        r.
    bits : float
        b, bits of a weight.

    Returns
    -------
    float
        For `task.model_bits` of a scenario.

    Examples
    --------
    >>> adapter_bits([Matrix("q_proj", 768, 768, 12), Matrix("v_proj", 768, 768, 12)], rank=8)
    4718592.0
    """
    if not bits > 0:
        raise BadInput(f"bits = {bits}: expected a number above 0")
    return float(bits * adapter_weights(matrices, rank))


def check_rank(rank: Any, inputs: int, outputs: int, name: str) -> None:
    """Refuse a rank that no adapter of a matrix can have."""
    smaller = min(inputs, outputs)
    if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= smaller:
        raise BadInput(
            f"rank = {rank!r}: {name} has {inputs} inputs and {outputs} outputs: expected a whole "
            f"number from 1 to {smaller}"
        )


@dataclass(frozen=True)
class AdapterTable:
    """Adapters of common models. `adapter_table` makes one.

    Attributes
    ----------
    models : tuple of AdaptedModel
        The models.
    rates : tuple of float
        Rates of uploads [bit/s].
    bits : float
        Bits of a weight.
    """

    models: tuple[AdaptedModel, ...]
    rates: tuple[float, ...]
    bits: float

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each model: rank, weights, megabytes, and seconds at each rate."""
        return [
            {
                "model": model.name,
                "adapts": ", ".join(matrix.name for matrix in model.matrices),
                "rank": model.rank,
                "weights": model.weights,
                "megabytes": self.bits * model.weights / 8e6,
                **{f"seconds_at_{rate:g}": self.bits * model.weights / rate for rate in self.rates},
            }
            for model in self.models
        ]

    def __str__(self) -> str:
        heads = ["model", "adapts", "rank", "weights", "MB"]
        heads += [f"s at {rate / 1e6:g} Mb/s" for rate in self.rates]
        lines = [heads]
        for row in self.rows():
            name, adapts, rank, weights, megabytes, *seconds = row.values()
            cells = [name, adapts, str(rank), f"{weights / 1e6:.3g} M", f"{megabytes:.3g}"]
            lines.append(cells + [f"{value:.3g}" for value in seconds])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        left = 2  # columns of texts
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i < left else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )

    __repr__ = __str__


def adapter_table(
    rates: Sequence[float] = RATES,
    bits: float = BITS,
    models: Sequence[AdaptedModel] = MODELS,
    rank: int | None = None,
) -> AdapterTable:
    """Return the sizes of adapters of common models, and the seconds of their uploads.

    Parameters
    ----------
    rates : sequence of float
        Rates of uploads [bit/s].
    bits : float
        b, bits of a weight.
    models : sequence of AdaptedModel
        Default: `MODELS`.
    rank : int, optional
        The rank of all models. Default: the usual one of each.

    Returns
    -------
    AdapterTable

    Examples
    --------
    >>> print(adapter_table(rates=[1e6]))
    model         adapts          rank  weights     MB  s at 1 Mb/s
    Mistral-7B    q_proj, v_proj    32   13.6 M   27.3          218
    Llama-3.2-1B  q_proj, v_proj    16    1.7 M   3.41         27.3
    Qwen2.5-0.5B  q_proj, v_proj     8  0.541 M   1.08         8.65
    RoBERTa-base  q_proj, v_proj     8  0.295 M   0.59         4.72
    ViT-B         q_proj, v_proj     8  0.295 M   0.59         4.72
    """
    wrong = [rate for rate in rates if not rate > 0]
    if wrong or not rates:
        raise BadInput(f"rates = {list(rates)}: expected numbers above 0 [bit/s]")
    if not bits > 0:
        raise BadInput(f"bits = {bits}: expected a number above 0")
    chosen = [
        AdaptedModel(m.name, m.matrices, m.rank if rank is None else rank, m.shapes) for m in models
    ]
    for model in chosen:
        _ = model.weights  # refuses the rank
    return AdapterTable(tuple(chosen), tuple(map(float, rates)), bits)
