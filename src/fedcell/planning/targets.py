"""How a target stands in the files of pilots and plans."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from fedcell.core.schema import Count, Positive, Text
from fedcell.planning.records import table_record
from fedcell.scenario.target import Target

Accuracy = Annotated[float, Meta(gt=0, le=1, description="a number from 0 to 1")]


def _check_target(row: Any) -> list[str]:
    """Return a fault unless there is one of loss, accuracy and another metric."""
    if row.metric is not None:
        others = {"loss": row.loss, "accuracy": row.accuracy}
        faults = [f"{name} = {x}: beside a metric" for name, x in others.items() if x is not None]
        missing = [name for name in ("level", "better") if getattr(row, name) is None]
        return faults + [f"{name} is left out, of the metric {row.metric}" for name in missing]
    if (row.loss is None) != (row.accuracy is None):
        return []
    return [f"loss = {row.loss} and accuracy = {row.accuracy}: expected one of them"]


TARGET = table_record(
    "Target",
    Target,
    {
        "loss": (Positive | None, None),
        "accuracy": (Accuracy | None, None),
        "hold": (Count, 1),
        "metric": (Text | None, None),
        "level": (float | None, None),
        "better": (Literal["higher", "lower"] | None, None),
    },
    _check_target,
)
