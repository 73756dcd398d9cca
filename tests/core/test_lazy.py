"""Namespaces that load their names when asked."""

import sys

import pytest

from fedcell.core.lazy import attach
from fedcell.errors import BadInput


def test_a_name_whose_package_is_not_installed_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "needs_flower.py").write_text("import flwr\n")
    (tmp_path / "needs_another.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "flwr", None)  # as if it were not installed
    load, _, _ = attach("fedcell.deploy", {"needs_flower": ["run"], "needs_another": ["other"]})
    with pytest.raises(BadInput, match=r"deploy\.run` needs .*pip install 'fedcell\[flower\]'"):
        load("run")
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        load("other")
