"""Drawing changes no setting of the process."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os
from fedcell.show.figures.style import drawing, new_figure
before = dict(os.environ)
with drawing():
    new_figure(1, 1)
assert dict(os.environ) == before
import matplotlib
print(matplotlib.get_backend(auto_select=False))
"""


@pytest.mark.parametrize(
    ("given", "kept"), [("svg", "svg"), (None, "None"), ("nonsense", "None"), ("agg", "agg")]
)
def test_drawing_keeps_the_environment_and_the_backend(given, kept):
    settings = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    if given is not None:
        settings["MPLBACKEND"] = given
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=settings, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == kept
