"""Settings of a SuperNode on its command line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.flower
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.common.config import parse_config_args  # noqa: E402

from fedcell.deploy.local.federation import node_config  # noqa: E402

NAMES = st.text(st.characters(exclude_categories=["C"]) | st.sampled_from('\\"= '), max_size=20)


@given(st.dictionaries(st.sampled_from(["device", "rate", "kappa"]), NAMES | st.floats(0, 1e9)))
def test_settings_of_a_node_are_read_by_flower_as_they_are_written(settings):
    assert parse_config_args([node_config(settings)] if settings else None) == settings
