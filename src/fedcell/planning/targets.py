"""How a target stands in the files of pilots and plans."""

from typing import Annotated, Any

from msgspec import Meta

from fedcell.core.schema import Count, Positive
from fedcell.planning.records import record
from fedcell.scenario.target import Target

Accuracy = Annotated[float, Meta(gt=0, le=1, description="a number from 0 to 1")]


def _check_target(row: Any) -> list[str]:
    """Return a fault unless there is one of loss and accuracy."""
    if (row.loss is None) != (row.accuracy is None):
        return []
    return [f"loss = {row.loss} and accuracy = {row.accuracy}: expected one of them"]


TARGET = record(
    Target, check=_check_target, loss=Positive | None, accuracy=Accuracy | None, hold=Count
)
