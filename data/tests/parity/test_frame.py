"""Golden values of the recommender functions, by every implementation of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau.data.frame as ta
from flambeau.core.testing.golden import golden_values
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import functional, reference

OVERLAPS = ("has_id_overlap", "id_overlap_count", "get_max_count", "get_jaccard_similarity")


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return golden_values("frame", __file__)


def test_sigrid_hash_gives_the_published_values(golden):
    for case in golden["sigrid_hash"]:
        column = ta.column(case["input"], dt.int64)
        assert list(functional.sigrid_hash(column, case["salt"], case["max_value"])) == case["expected"]
        values = np.array(case["input"], np.int64)
        assert reference.sigrid_hash(values, case["salt"], case["max_value"]).tolist() == case["expected"]


def test_bucketize_gives_the_published_values(golden):
    for case in golden["bucketize"]:
        result = functional.bucketize(ta.column(case["input"]), case["borders"])
        assert result.dtype == dt.int32
        assert list(result) == case["expected"]
        assert reference.bucketize(np.array(case["input"]), np.array(case["borders"])).tolist() == case["expected"]


def test_firstx_and_clamp_list_give_the_published_values(golden):
    for case in golden["firstx"]:
        assert list(functional.firstx(ta.column(case["input"]), case["num_to_copy"])) == case["expected"]
    for case in golden["clamp_list"]:
        assert list(functional.clamp_list(ta.column(case["input"]), case["lo"], case["hi"])) == case["expected"]


@pytest.mark.parametrize("name", OVERLAPS)
def test_overlaps_give_the_published_values(golden, name):
    cases = golden["overlap"]
    ids, matching = (ta.column([case[key] for case in cases]) for key in ("input_ids", "matching_ids"))
    result = getattr(functional, name)(ids, matching)
    assert result.dtype == dt.float32
    assert list(result) == [case[name] for case in cases]
