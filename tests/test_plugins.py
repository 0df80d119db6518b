"""Plugins: files and modules that are imported before the command is built."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli.commands import Command, regard
from regard.errors import ConfigError
from regard.plugins import load_installed_plugins, load_plugin, plugin_arguments, plugin_names

__all__ = ["regard"]  # a fixture


def test_plugins_are_given_before_the_subcommand() -> None:
    words = ["--plugin", "a.py", "--max-line-length", "9", "--plugin=b", "show", "--plugin", "c"]
    assert plugin_arguments(words) == ["a.py", "b"]
    assert plugin_arguments(["translate", "--plugin", "x"]) == []
    assert plugin_arguments(["--plugin"]) == []


def test_file_is_imported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, regard: Command
) -> None:
    path = tmp_path / "regard_test_plugin.py"
    path.write_text("import sys\nsys.plugin_count = getattr(sys, 'plugin_count', 0) + 1\n")
    monkeypatch.setattr(sys, "plugin_count", 0, raising=False)
    assert regard("--plugin", path, "show", "mask").status == 0
    assert regard(f"--plugin={path}", "--plugin", path, "show", "mask").status == 0
    assert str(path) in plugin_names()
    assert vars(sys)["plugin_count"] == 1
    assert sys.modules.pop("regard_test_plugin").__file__ == str(path)


def test_failed_import_is_reported(tmp_path: Path, regard: Command) -> None:
    path = tmp_path / "broken_plugin.py"
    path.write_text("\nimport nothing_like_this\n")
    result = regard("--plugin", path, "show", "mask")
    assert result.status == 2
    assert f"{path} cannot be imported: ModuleNotFoundError: No module named" in result.err
    assert "line 2" in result.err
    assert "broken_plugin" not in sys.modules
    for name, message in (
        ("nothing_like_this", "Plugin nothing_like_this cannot be imported: ModuleNotFound"),
        (str(tmp_path / "none.py"), "there is no file"),
        (str(tmp_path), "there is no file"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_plugin(name)


def test_file_does_not_replace_a_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("")
    with pytest.raises(ConfigError, match="a module 'json' is already imported"):
        load_plugin(str(tmp_path / "json.py"))


def test_installed_plugins_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "some_kinds-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-kinds\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[regard.plugins]\nkinds = some_kinds_of_models\n")
    (tmp_path / "some_kinds_of_models.py").write_text("loaded = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    load_installed_plugins()
    assert sys.modules.pop("some_kinds_of_models").loaded
