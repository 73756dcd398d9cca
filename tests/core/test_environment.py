"""What is set for a while is put back, whatever happens meanwhile."""

import os
import subprocess
import sys

import pytest

from fedcell.core.process import environment


def test_variables_are_put_back(monkeypatch):
    monkeypatch.setenv("FEDCELL_KNOWN", "old")
    monkeypatch.delenv("FEDCELL_NEW", raising=False)
    before = dict(os.environ)

    def fail() -> None:
        with environment({"FEDCELL_KNOWN": "new", "FEDCELL_NEW": "1"}):
            assert (os.environ["FEDCELL_KNOWN"], os.environ["FEDCELL_NEW"]) == ("new", "1")
            del os.environ["FEDCELL_NEW"]  # as others may
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert dict(os.environ) == before


def test_drawing_leaves_the_environment_as_it_was():
    code = """
import os, sys
from fedcell.show.figures.style import drawing
assert "matplotlib" not in sys.modules
before = dict(os.environ)
with drawing():
    pass
assert "matplotlib" in sys.modules
assert dict(os.environ) == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)
