"""`flambeau new-plugin`: a project that works, for any name, and that can follow the template later."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from flambeau.core.cli import main, new_plugin
from flambeau.core.cli.new_plugin import RECORD, Answers, render
from flambeau.core.errors import CommandError
from flambeau.core.manifest import validate_manifest

EXAMPLE = Path(__file__).parents[2] / "plugins" / "example"
PRODUCTS = re.compile(r"(^|/)(__pycache__|build|dist|\.\w+_cache|[^/]+\.egg-info)/")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    assert main(["new-plugin", "my-plugin", "--directory", str(folder), "--author", "Ada"]) == 0
    return folder


def test_the_example_plugin_is_what_the_template_gives() -> None:
    answers = Answers(**json.loads((EXAMPLE / RECORD).read_text())["answers"])
    assert answers.name == "example"
    files = {path.relative_to(EXAMPLE).as_posix(): path for path in EXAMPLE.rglob("*") if path.is_file()}
    own = {name: path.read_bytes() for name, path in files.items() if not PRODUCTS.search(name) and name != RECORD}

    assert own == render(answers), "run: flambeau new-plugin example --update --directory plugins/example"


@pytest.mark.parametrize("name", ["example", "my-plugin", "a1"])
def test_every_file_is_well_formed_for_any_name(name: str) -> None:
    files = render(Answers(name, "Ada & co"))
    package = f"flambeau_plugin_{name.replace('-', '_')}"

    for path, content in files.items():
        assert not path.endswith(".in") and "@" not in path
        if path.endswith(".safetensors"):
            assert len(content) < 10_000
            continue
        text = content.decode()
        assert not re.search(r"@(name|author|distribution|package|namespace)@", text), path
        if path.endswith(".py"):
            ast.parse(text)
    project = tomllib.loads(files["pyproject.toml"].decode())["project"]
    assert project["name"] == f"flambeau-plugin-{name}"
    assert project["entry-points"]["flambeau.manifest"] == {name: f"{package}:flambeau_plugin.json"}
    manifest = json.loads(files[f"src/{package}/flambeau_plugin.json"])
    assert validate_manifest(manifest) == []
    assert manifest["plugin"] == name


def test_the_project_has_all_that_a_plugin_can_have() -> None:
    manifest = json.loads(render(Answers("a1", "Ada"))["src/flambeau_plugin_a1/flambeau_plugin.json"])
    for table in ("models", "weights", "datasets", "tensor_types", "kernels", "commands", "predictors"):
        assert manifest[table], table
    assert manifest["conformance"]


def test_what_is_written_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-plugin", "my-plugin", "--directory", str(tmp_path / "new")]) == 0

    shown = capsys.readouterr().out
    assert "pip install --no-build-isolation -e" in shown and "flambeau plugins show my-plugin" in shown
    assert "the authors of flambeau-plugin-my-plugin" in (tmp_path / "new" / "LICENSE").read_text()


def test_the_folder_is_named_after_the_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new-plugin", "my-plugin"]) == 0
    assert (tmp_path / "flambeau-plugin-my-plugin" / "pyproject.toml").is_file()


@pytest.mark.parametrize("name", ["My-Plugin", "1st", "a_b", "a-", "", "../x", "vision", "core", "weights"])
def test_a_name_that_cannot_be_one_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="name"):
        Answers(name, "Ada")


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    assert main(["new-plugin", "my-plugin", "--directory", str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes | None]:
    """Files in which a later template differs: path -> content, None for one that it has no longer."""
    changes: dict[str, bytes | None] = {}

    def rendered(answers: Answers) -> dict[str, bytes]:
        files = {**render(answers), **changes}
        return {path: content for path, content in files.items() if content is not None}

    monkeypatch.setattr(new_plugin, "render", rendered)
    return changes


def update(folder: Path, code: int = 0) -> None:
    assert main(["new-plugin", "my-plugin", "--update", "--directory", str(folder)]) == code


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_without_a_change_an_update_changes_nothing(project: Path) -> None:
    before = contents(project)
    update(project)
    assert contents(project) == before


def test_an_update_brings_changed_and_new_files(project: Path, later: dict[str, bytes | None]) -> None:
    later.update({"README.md": b"new words", "docs/more.md": b"more"})

    update(project)

    assert (project / "README.md").read_bytes() == b"new words"
    assert (project / "docs/more.md").read_bytes() == b"more"
    update(project)


def test_files_of_yours_that_the_template_has_not_changed_stay(project: Path, later: dict[str, bytes | None]) -> None:
    (project / "README.md").write_text("mine")
    (project / "notes.txt").write_text("mine too")
    later["CHANGELOG.md"] = b"new"

    update(project)

    assert (project / "README.md").read_text() == "mine"
    assert (project / "notes.txt").read_text() == "mine too"
    assert (project / "CHANGELOG.md").read_bytes() == b"new"


def test_nothing_is_written_where_both_have_changed_a_file(
    project: Path, later: dict[str, bytes | None], capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "README.md").write_text("mine")
    later.update({"README.md": b"theirs", "CHANGELOG.md": b"new"})
    before = contents(project)

    update(project, code=1)

    assert "so have you: README.md." in capsys.readouterr().err
    assert contents(project) == before


def test_the_same_change_on_both_sides_is_no_conflict(project: Path, later: dict[str, bytes | None]) -> None:
    (project / "README.md").write_text("same")
    later["README.md"] = b"same"
    update(project)


def test_a_file_in_the_place_of_a_new_one_is_a_conflict(project: Path, later: dict[str, bytes | None]) -> None:
    (project / "extra.md").write_text("mine")
    later["extra.md"] = b"theirs"
    update(project, code=1)


def test_what_you_removed_stays_removed(project: Path, later: dict[str, bytes | None]) -> None:
    (project / "CHANGELOG.md").unlink()
    later["CHANGELOG.md"] = b"new"
    update(project)
    assert not (project / "CHANGELOG.md").exists()


def test_what_the_template_gave_up_is_named_and_stays(
    project: Path, later: dict[str, bytes | None], capsys: pytest.CaptureFixture[str]
) -> None:
    later["CHANGELOG.md"] = None
    update(project)
    assert "no longer in the template: CHANGELOG.md" in capsys.readouterr().out
    assert (project / "CHANGELOG.md").exists()


@pytest.mark.parametrize(
    ("content", "message"), [(None, "was not written by"), ("{", "is damaged"), ('{"answers": {}}', "is damaged")]
)
def test_an_update_wants_the_project_it_has_written(
    content: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / RECORD).write_text(content)
    update(tmp_path, code=1)
    assert message in capsys.readouterr().err


def test_an_update_is_for_the_plugin_that_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-plugin", "other", "--update", "--directory", str(project)]) == 1
    assert "holds the plugin 'my-plugin', not 'other'" in capsys.readouterr().err


USE = """
import torch
from flambeau.core import get_dataset, get_model, get_weight, list_models
from flambeau.core.cli import main

model = get_model("my-plugin/spiral_net", weights="DEFAULT").eval()
point, label = get_dataset("my-plugin/spirals", split="test")[0]
assert list_models() == ["my-plugin/spiral_net"], list_models()
assert get_weight("SpiralNet_Weights.DEFAULT").meta["license"] == "BSD-3-Clause"
assert main(["my-plugin"]) == 0
from flambeau_plugin_my_plugin.ops import LIBRARY
assert LIBRARY.provider == "dispatcher", LIBRARY.reason
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("scikit_build_core") is None, reason="needs scikit-build-core, cmake and ninja to build")
def test_its_wheel_works_where_there_is_only_core(project: Path, tmp_path: Path) -> None:
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    others = {point.name for group in ("flambeau.manifest", "flambeau") for point in entry_points(group=group)}
    environment = {**os.environ, "PATH": tools, "FLAMBEAU_DISABLE_PLUGINS": ",".join(others)}

    def run(*words: str, **more: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], env={**environment, **more}, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    alone = ("-q", "--no-deps", "--no-index", "--disable-pip-version-check")
    run("-m", "pip", "wheel", *alone, "--no-build-isolation", "-w", str(tmp_path), str(project))
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("flambeau_plugin_my_plugin-0.1.0-py3-none-")
    run("-m", "pip", "install", *alone, "--target", str(tmp_path / "site"), str(wheel))

    shown = run("-c", USE, PYTHONPATH=str(tmp_path / "site"))

    right = int(shown.split()[0])
    assert right > 950 and "of 1000 points" in shown


def test_the_record_is_what_an_update_needs(project: Path) -> None:
    record: dict[str, Any] = json.loads((project / RECORD).read_text())
    assert record["answers"] == {"name": "my-plugin", "author": "Ada"}
    assert set(record["files"]) == set(contents(project)) - {RECORD}
