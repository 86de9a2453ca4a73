"""Golden values: read from the tests of the package that asks, and from nowhere else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from flambeau.core.testing import golden


@pytest.fixture
def test(tmp_path: Path) -> Path:
    """A test of a package whose parity folder holds one topic of each kind and two programs."""
    parity = tmp_path / "package/tests/parity"
    (parity / "golden").mkdir(parents=True)
    (parity / "golden/models.json").write_text('{"cases": [1]}')
    (parity / "golden/large.json.gz").write_bytes(gzip.compress(json.dumps({"cases": [2]}).encode()))
    (parity / "upstream").mkdir()
    (parity / "upstream/api.json").write_text('{"modules": {}}')
    (parity / "inputs.py").write_text("def make():\n    return 6\n")
    (parity / "cases").mkdir()
    (parity / "cases/__init__.py").write_text("from .numbers import SEVEN\n")
    (parity / "cases/numbers.py").write_text("SEVEN = 7\n")
    return tmp_path / "package/tests/models/test_x.py"


def test_values_are_those_of_the_tests_package_plain_or_packed(test: Path) -> None:
    assert golden.golden_values("models", test) == {"cases": [1]}
    assert golden.golden_values("large", test) == {"cases": [2]}
    assert golden.upstream_facts("api", test) == {"modules": {}}


def test_programs_are_modules_or_folders_whose_modules_find_one_another(test: Path) -> None:
    assert golden.parity_module("inputs", test).make() == 6
    assert golden.parity_module("cases", test).SEVEN == 7
    assert golden.parity_module("cases", test) is golden.parity_module("cases", test)


def test_an_unknown_topic_lists_those_there_are(test: Path) -> None:
    with pytest.raises(FileNotFoundError, match="'modles'; it has large, models"):
        golden.golden_values("modles", test)
    with pytest.raises(FileNotFoundError, match="no program 'absent'"):
        golden.parity_module("absent", test)


def test_what_lies_in_no_tests_is_an_error_and_not_a_skip(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="lies in no folder tests"):
        golden.parity_folder(tmp_path)
    (tmp_path / "tests").mkdir()
    with pytest.raises(FileNotFoundError, match="has no folder parity"):
        golden.parity_folder(tmp_path / "tests" / "test_x.py")
