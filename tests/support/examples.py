"""How many examples a property is tried on: more when fuzzing, fewer when in a hurry."""

import os
from typing import Any

from hypothesis import settings

FACTOR = float(os.environ.get("FEDCELL_FUZZ", "1"))  # `make fuzz` sets it


def examples(count: int) -> Any:
    """Settings of a property that is usually tried on `count` examples."""
    return settings(max_examples=max(1, round(count * FACTOR)))
