"""Golden values: found beside the checkout or where the environment says, and skipped where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from flambeau.core.testing import golden


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("FLAMBEAU_SHARED", raising=False)
    folder = tmp_path / "shared"
    (folder / "golden").mkdir(parents=True)
    (folder / "golden/fill.py").write_text("def twice(x):\n    return 2 * x\n")
    (folder / "golden/inputs.py").write_text("import fill\n\ndef make():\n    return fill.twice(3)\n")
    (folder / "golden/models.json").write_text('{"cases": [1]}')
    return folder


def test_the_folder_is_found_beside_a_parent_of_the_test(shared: Path, tmp_path: Path) -> None:
    test = tmp_path / "repository/core/tests/test_x.py"
    test.parent.mkdir(parents=True)
    test.touch()

    assert golden.shared_folder(test) == shared


def test_the_environment_names_another_folder(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_SHARED", str(shared))

    assert golden.shared_folder("/") == shared


def test_a_wrong_environment_is_an_error_and_not_a_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_SHARED", str(tmp_path))

    with pytest.raises(FileNotFoundError, match=r"holds no golden/fill\.py"):
        golden.require_shared(__file__)


def test_without_the_folder_the_test_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLAMBEAU_SHARED", raising=False)
    monkeypatch.setattr(golden, "_MARK", Path("golden", "no such file"))

    with pytest.raises(pytest.skip.Exception, match="set FLAMBEAU_SHARED"):
        golden.golden_values("models", tmp_path)


def test_values_and_programs_are_read(shared: Path) -> None:
    assert golden.golden_values("models", shared) == {"cases": [1]}
    assert golden.golden_module("fill", shared).twice(2) == 4


def test_a_program_finds_its_neighbours(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(__import__("sys").modules, "fill", raising=False)

    assert golden.golden_module("inputs", shared).make() == 6
    __import__("sys").modules.pop("fill", None)


def test_an_unknown_topic_lists_those_there_are(shared: Path) -> None:
    with pytest.raises(FileNotFoundError, match="it has models"):
        golden.golden_values("modles", shared)
    with pytest.raises(FileNotFoundError, match=r"no absent\.py"):
        golden.golden_module("absent", shared)
