"""Selectors: rules that say which clients a round calls.

A selector is any callable from a `Known` to a `Race` or to `Chances` that says what it reads;
`check_selector` tests one. Published rules are in docs/reference/zoo.md.
"""

from typing import TYPE_CHECKING

from fedcell.core.lazy import attach

if TYPE_CHECKING:
    from fedcell.network.selectors.base import Chances as Chances
    from fedcell.network.selectors.base import Known as Known
    from fedcell.network.selectors.base import Race as Race
    from fedcell.network.selectors.base import Selector as Selector
    from fedcell.network.selectors.base import best as best
    from fedcell.network.selectors.base import drawn_by as drawn_by
    from fedcell.network.selectors.base import highest as highest
    from fedcell.network.selectors.base import known_round as known_round
    from fedcell.network.selectors.base import reads as reads
    from fedcell.network.selectors.base import surely as surely
    from fedcell.network.selectors.drawing import in_proportion as in_proportion
    from fedcell.network.selectors.names import selecting as selecting
    from fedcell.network.selectors.names import selector_by_name as selector_by_name
    from fedcell.network.selectors.testing import check_selector as check_selector

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "fedcell.network.selectors.base": [
            "Chances",
            "Known",
            "Race",
            "Selector",
            "best",
            "drawn_by",
            "highest",
            "known_round",
            "reads",
            "surely",
        ],
        "fedcell.network.selectors.drawing": ["in_proportion"],
        "fedcell.network.selectors.names": ["selecting", "selector_by_name"],
        "fedcell.network.selectors.testing": ["check_selector"],
    },
)
