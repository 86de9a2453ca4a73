"""The worked example finds what it says it finds."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("sklearn", reason="needs the digits of scikit-learn")
pytest.importorskip("flambeau.vision", reason="needs the model vision/digit_cnn")

EXAMPLE = Path(__file__).parents[1] / "examples" / "mislabelled_digits.py"


@pytest.mark.slow
def test_nine_in_ten_of_the_largest_self_influence_are_mislabelled():
    spec = importlib.util.spec_from_file_location("mislabelled_digits", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.find()
    assert found.precision >= 0.9
    assert (found.labels != found.truth).sum() == module.FLIPPED
