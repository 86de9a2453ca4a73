"""The native recommender kernels against their definitions, bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.data._native import LIBRARY
from flambeau.data.frame import kernels, reference

pytestmark = pytest.mark.skipif(LIBRARY.load() is None, reason=f"no native kernels: {LIBRARY.reason}")
quick = settings(max_examples=60, deadline=None)
INT64 = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.lists(st.integers(-3, 3), max_size=6), min_size=1, max_size=6)


def flat(rows, dtype=np.int64):
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return offsets, np.array([one for row in rows for one in row], dtype)


@quick
@given(values=st.lists(INT64), salt=INT64, max_value=st.integers(1, 2**63 - 1))
def test_sigrid_hash(values, salt, max_value):
    array = np.array(values, np.int64)
    result = kernels.sigrid_hash(array, salt, max_value)
    assert np.array_equal(result, reference.sigrid_hash(array, salt, max_value))
    assert ((result >= 0) & (result < max_value)).all()


@quick
@given(
    values=st.lists(INT64, min_size=1),
    salt=INT64,
    max_value=st.sampled_from([2, 3, 7, 4095, 4096, 2**31, 2**53 + 1, 2**60 - 1, 2**60, 2**60 + 1, 2**62, 2**63 - 1]),
)
def test_sigrid_hash_at_the_edges_of_its_estimates(values, salt, max_value):
    array = np.array(values, np.int64)
    assert np.array_equal(kernels.sigrid_hash(array, salt, max_value), reference.sigrid_hash(array, salt, max_value))


@quick
@given(data=st.data(), rows=st.sampled_from([0, 1, 511, 512, 513, 20_000]), threads=st.integers(1, 3))
def test_hash_rows(data, rows, threads):
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    columns, expected = [], np.full((rows, 5), -1, np.int64)
    for kind in ("int8", "int16", "int32", "int64", "int64"):
        first = data.draw(st.integers(0, 9))
        bits = (
            generator.integers(0, 256, (rows + first) // 8 + 1).astype(np.uint8) if data.draw(st.booleans()) else None
        )
        info = np.iinfo(kind)
        values = generator.integers(info.min, info.max, rows, kind)
        columns.append(
            kernels.HashedColumn(values, bits, first, *data.draw(st.tuples(INT64, st.sampled_from([0, 1, 9]))))
        )
    reference.hash_rows([(one.values, kernels.present(one), one.salt, one.max_value) for one in columns], expected)
    for result in (
        np.empty((rows, 5), np.int64),
        np.empty((5, rows), np.int64).T,
        np.empty((rows, 9), np.int64)[:, ::2],
    ):
        kernels.hash_rows(columns, result, threads)
        assert np.array_equal(result, expected)


@quick
@given(
    values=st.lists(st.floats(width=32, allow_nan=True)),
    borders=st.lists(st.integers(-5, 5), min_size=1, max_size=6, unique=True),
    kind=st.sampled_from(["float32", "float64", "int32", "int64", "int8"]),
)
def test_bucketize(values, borders, kind):
    with np.errstate(invalid="ignore"):
        array = np.nan_to_num(np.array(values), posinf=9, neginf=-9).clip(-9, 9).astype(kind)
    if kind.startswith("float"):
        array = np.array(values, kind)
    limits = sorted(borders)
    limits += limits[-1:]
    assert np.array_equal(kernels.bucketize(array, limits), reference.bucketize(array, np.array(limits, array.dtype)))


@quick
@given(rows=ROWS, count=st.integers(0, 4), kind=st.sampled_from(["int8", "int16", "int32", "float64"]))
def test_firstx(rows, count, kind):
    offsets, values = flat(rows, kind)
    for mine, theirs in zip(
        kernels.firstx(offsets, values, count), reference.firstx(offsets, values, count), strict=True
    ):
        assert np.array_equal(mine, theirs)


@quick
@given(data=st.data(), rows=ROWS)
@pytest.mark.parametrize("name", ["has_id_overlap", "id_overlap_count", "get_max_count", "get_jaccard_similarity"])
def test_overlaps(name, data, rows):
    others = data.draw(st.lists(st.lists(st.integers(-3, 3), max_size=80), min_size=len(rows), max_size=len(rows)))
    arguments = (*flat(rows), *flat(others))
    mode = kernels.OVERLAPS[name].args[0]
    assert np.array_equal(kernels.OVERLAPS[name](*arguments), reference.overlap(mode, *arguments))


@quick
@given(data=st.data(), rows=ROWS)
@pytest.mark.parametrize("mode", [reference.SUM, reference.LEAST, reference.GREATEST, reference.COSINE])
def test_scored_overlaps(mode, data, rows):
    others = data.draw(st.lists(st.lists(st.integers(-3, 3), max_size=80), min_size=len(rows), max_size=len(rows)))
    if mode == reference.COSINE:
        rows, others = [[*row, 9] for row in rows], [[*row, 9] for row in others]
    scores = [[data.draw(st.integers(1, 8)) / 4 for _ in row] for row in rows]
    matching = [[data.draw(st.integers(1, 8)) / 4 for _ in row] for row in others]
    mine, theirs = flat(rows), flat(others)
    s, m = flat(scores, np.float32)[1], flat(matching, np.float32)[1]
    result = kernels._scored(mode, *mine, s, *theirs, m)
    expected = reference.scored_overlap(mode, *mine, s, *theirs, m)
    # The norm's square roots and products are rounded in another order.
    np.testing.assert_allclose(result, expected, rtol=1e-6 if mode == reference.COSINE else 0)


def test_a_row_without_norm_is_named():
    offsets, ids = flat([[1], [1]])
    scores = np.array([1.0, 0.0], np.float32)
    for function in (kernels._scored, reference.scored_overlap):
        with pytest.raises(ValueError, match="row 1"):
            function(reference.COSINE, offsets, ids, scores, offsets, ids, np.ones(2, np.float32))


def test_without_the_library_the_definitions_serve(monkeypatch):
    monkeypatch.setattr(kernels, "_function", lambda *arguments: None)
    offsets, ids = flat([[1, 2]])
    assert kernels.sigrid_hash(np.array([1, 2, 3]), 0, 100).tolist() == [60, 54, 54]
    assert kernels.bucketize(np.array([1, 5]), [2, 5]).tolist() == [0, 1]
    assert kernels.firstx(offsets, ids, 1)[1].tolist() == [1]
    assert kernels.OVERLAPS["id_overlap_count"](offsets, ids, offsets, ids).tolist() == [2.0]
    scores = np.ones(2, np.float32)
    assert kernels._scored(reference.SUM, offsets, ids, scores, offsets, ids, scores).tolist() == [2.0]
