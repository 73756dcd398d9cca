"""Plugins: objects that installed packages add by entry points."""

import sys

import pytest

from fedcell.core.plugins import load_plugin, plugin_names
from fedcell.errors import BadInput
from support.plugins import install_package

GROUP = "fedcell.test_group"


def test_names_are_listed_without_importing_anything(tmp_path, monkeypatch):
    assert plugin_names(GROUP) == []
    points = {GROUP: {"zeta": "listed_plugin:a", "alpha": "listed_plugin:b"}}
    install_package(tmp_path, monkeypatch, "listed_plugin", "raise RuntimeError", points)
    assert plugin_names(GROUP) == ["alpha", "zeta"]
    assert plugin_names("fedcell.another_group") == []
    assert "listed_plugin" not in sys.modules


def test_a_plugin_is_imported_by_its_name(tmp_path, monkeypatch):
    points = {GROUP: {"answer": "good_plugin:Box.value"}}
    install_package(tmp_path, monkeypatch, "good_plugin", "class Box:\n    value = 42\n", points)
    assert load_plugin(GROUP, "answer") == 42


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module:x", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("bad_plugin:missing", "AttributeError: .*missing"),
        ("broken_plugin:x", "RuntimeError: on import"),
        ("exiting_plugin:x", "SystemExit: 3"),
        ("not a reference", "cannot be loaded: "),
    ],
)
def test_a_bad_entry_point_is_one_sentence(tmp_path, monkeypatch, value, reason):
    tmp_path.joinpath("broken_plugin.py").write_text("raise RuntimeError('on import')")
    tmp_path.joinpath("exiting_plugin.py").write_text("raise SystemExit(3)")
    install_package(tmp_path, monkeypatch, "bad_plugin", "", {GROUP: {"worst": value}})
    with pytest.raises(BadInput, match=reason) as caught:
        load_plugin(GROUP, "worst")
    (sentence,) = caught.value.faults
    assert sentence.startswith(f"worst = {value!r} of {GROUP}, in bad_plugin, cannot be loaded: ")


def test_a_name_without_a_package_is_refused_with_the_known_names(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match=f"no installed package adds 'x' to {GROUP}.*: none"):
        load_plugin(GROUP, "x")
    install_package(tmp_path, monkeypatch, "other_plugin", "", {GROUP: {"y": "other_plugin:y"}})
    with pytest.raises(BadInput, match=r"installed: y$"):
        load_plugin(GROUP, "x")


def test_a_name_in_two_packages_is_refused(tmp_path, monkeypatch):
    for name in ("twin_one", "twin_two"):
        points = {GROUP: {"same": f"{name}:value"}}
        install_package(tmp_path / name, monkeypatch, name, "value = 1", points)
    with pytest.raises(BadInput, match=r"'same' of .* is in twin_one and twin_two: uninstall one"):
        load_plugin(GROUP, "same")


def test_entry_points_that_cannot_be_read_are_one_sentence(tmp_path, monkeypatch):
    install_package(tmp_path, monkeypatch, "torn_plugin", "", {})
    (tmp_path / "torn_plugin-1.0.dist-info" / "entry_points.txt").write_text(f"[{GROUP}]\nno sign")
    with pytest.raises(BadInput, match=f"the entry points of {GROUP} cannot be read"):
        plugin_names(GROUP)
