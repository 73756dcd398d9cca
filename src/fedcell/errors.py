"""Errors and warnings, by kind: each message names the culprit and the way out."""

from typing import TYPE_CHECKING

from fedcell.core.lazy import attach

if TYPE_CHECKING:
    from fedcell.core.errors import BadFile as BadFile
    from fedcell.core.errors import BadInput as BadInput
    from fedcell.core.errors import DataUnavailable as DataUnavailable
    from fedcell.core.errors import Diverged as Diverged
    from fedcell.core.errors import FedcellError as FedcellError
    from fedcell.core.errors import FedcellWarning as FedcellWarning
    from fedcell.core.errors import NoPlan as NoPlan
    from fedcell.core.errors import NoTestbed as NoTestbed
    from fedcell.core.errors import NotReached as NotReached

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "fedcell.core.errors": [
            "BadFile",
            "BadInput",
            "DataUnavailable",
            "Diverged",
            "FedcellError",
            "FedcellWarning",
            "NoPlan",
            "NoTestbed",
            "NotReached",
        ],
    },
)
