"""Functions for recommenders and text: what upstream documents, what they refuse, and missing values."""

import math

import pytest

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import functional


def test_the_examples_that_upstream_documents():
    ids, matching = ta.column([[1, 1, 2, 3], [5, 8], [13]]), ta.column([[1, 2, 3], [2, 3], [13] * 5])
    assert list(functional.get_max_count(ids, matching)) == [4.0, 0.0, 5.0]
    assert list(functional.get_jaccard_similarity(ids, matching)) == pytest.approx([0.75, 0.0, 0.2])
    scored = (ta.column([[1, 2, 3]]), ta.column([[1.0, 2.0, 3.0]]))
    other = (ta.column([[1, 2, 3]]), ta.column([[5.0, 4.0, 3.0]]))
    assert list(functional.get_cosine_similarity(*scored, *other)) == pytest.approx([0.831522], abs=1e-6)
    two = (ta.column([[1, 2]]), ta.column([[5.0, 4.0]]))
    assert list(functional.get_score_sum(*scored, *two)) == [9.0]
    assert list(functional.get_score_min(scored[0], *two)) == [4.0]
    assert list(functional.get_score_max(scored[0], *two)) == [5.0]
    x = ta.column([[1, 2, 3], [1, 2, 3], [1, 2, 2], [1, 2, 2], [1, None, None]])
    y = ta.column([[4, 5, 6], [1, 2], [1, 1, 2], [1, 3, 4], [1, 1, None]])
    assert list(functional.array_except(x, y)) == [[1, 2, 3], [3], [], [2], []]
    made = functional.array_constructor(ta.column([1, 2, -1]), ta.column([2, 3, None]))
    assert list(made) == [[1, 2], [2, 3], [-1, None]]


def test_functions_work_on_items_of_lists():
    lists = ta.column([[1, 2, None], [], None, [5]])
    assert list(functional.sigrid_hash(lists, 0, 100)) == [[60, 54, None], [], None, [4]]
    assert list(functional.bucketize(lists, [2, 5, 10])) == [[0, 0, None], [], None, [1]]
    assert list(functional.firstx(lists, 1)) == [[1], [], None, [5]]
    assert list(functional.clamp_list(lists, 2, 3)) == [[2, 2, None], [], None, [3]]


def test_missing_values_stay_missing():
    assert list(functional.sigrid_hash(ta.column([1, None]), 0, 100)) == [60, None]
    assert list(functional.bucketize(ta.column([1.0, None]), [2.0])) == [0, None]
    ids, none = ta.column([[1], [1]]), ta.column([[1], None])
    assert list(functional.has_id_overlap(ids, none)) == [1.0, None]
    scores, missing = ta.column([[1.0], [1.0]]), ta.column([[1.0], None])
    assert list(functional.get_cosine_similarity(ids, scores, none, missing)) == [1.0, None]


def test_not_a_number_lies_in_the_last_bucket():
    assert list(functional.bucketize(ta.column([float("nan"), math.inf, -math.inf]), [1.0, 2.0])) == [2, 2, 0]


@pytest.mark.parametrize(
    ("borders", "message"),
    [
        ([], "at least one"),
        ([2, 1], "must not fall"),
        ([1, 1, 1], "more than twice"),
        ([1, None], "none of them missing"),
    ],
)
def test_borders_out_of_order_are_refused(borders, message):
    with pytest.raises(ValueError, match=message):
        functional.bucketize(ta.column([1]), borders)


def test_arguments_out_of_range_are_refused():
    with pytest.raises(ValueError, match="max_value is 0"):
        functional.sigrid_hash(ta.column([1]), 0, 0)
    with pytest.raises(TypeError, match="sigrid_hash is not defined for float32"):
        functional.sigrid_hash(ta.column([1.0]), 0, 10)
    with pytest.raises(ValueError, match="-1 items"):
        functional.firstx(ta.column([[1]]), -1)
    with pytest.raises(ValueError, match="lower bound 2 exceeds"):
        functional.clamp_list(ta.column([[1]]), 2, 1)
    with pytest.raises(TypeError, match="lists of whole numbers"):
        functional.has_id_overlap(ta.column([[1.0]]), ta.column([[1]]))


def test_scores_that_do_not_fit_their_ids_are_refused():
    ids, two, one = ta.column([[1, 2]]), ta.column([[1.0, 2.0]]), ta.column([[1.0]])
    with pytest.raises(ValueError, match="row 0 has 1 scores for 2 ids"):
        list(functional.get_score_sum(ids, one, ids, two))
    with pytest.raises(ValueError, match="norm zero"):
        list(functional.get_cosine_similarity(ids, ta.column([[0.0, 0.0]]), ids, two))


def test_scaling_to_a_range_and_to_scores():
    column = ta.column([1, 2, 3, None])
    assert list(functional.scale_to_0_1(column)) == [0.0, 0.5, 1.0, None]
    constant = functional.scale_to_0_1(ta.column([2.0, 2.0]))
    assert list(constant) == pytest.approx([1 / (1 + math.exp(-2))] * 2)
    scores = functional.scale_to_z_score(column)
    assert scores.dtype == dt.Float32(True)
    assert list(scores) == [-1.0, 0.0, 1.0, None]
    assert list(functional.scale_to_z_score(ta.column([3, 3]))) == [3.0, 3.0]


def test_tokens_are_added_looked_up_and_made():
    indices = functional.add_tokens(ta.column([[1, 2], [3, 4, 5]]), [0], begin=True)
    assert list(functional.add_tokens(indices, [6], begin=False)) == [[0, 1, 2, 6], [0, 3, 4, 5, 6]]
    tokens = ta.column([["Hello", "world"], [], None, ["world"]])
    assert list(functional.add_tokens(tokens, ["<bos>"]))[:2] == [["<bos>", "Hello", "world"], ["<bos>"]]
    vocab = {"Hello": 1, "world": 2}
    assert list(functional.lookup_indices(vocab, tokens)) == [[1, 2], [], None, [2]]
    assert list(functional.lookup_indices(vocab, ta.column(["world", None]))) == [2, None]
    with pytest.raises(KeyError):
        list(functional.lookup_indices({"Hello": 1}, tokens))


def test_a_tokenizer_is_called_once_for_each_text():
    class Tokenizer:
        calls = 0

        def encode(self, text):
            self.calls += 1
            return [len(word) for word in text.split()]

    tokenizer = Tokenizer()
    texts = ta.column(["a bb", "a bb", None, "ccc"])
    result = functional.bpe_tokenize(tokenizer, texts)
    assert result.dtype == dt.List(dt.string, nullable=True)
    assert list(result) == [["1", "2"], ["1", "2"], None, ["3"]]
    assert tokenizer.calls == 2


def test_list_columns_collate_to_jagged_values():
    first, second = functional.get_jagged_sequences(ta.column([[1, 2], None, [3]]), ta.column([[0.5], [], []]))
    assert first.values().tolist() == [1, 2, 3]
    assert first.lengths().tolist() == [2, 0, 1]
    assert second.offsets().tolist() == [0, 1, 1, 1]


def test_slice_counts_places_from_one_as_sql_does():
    lists = ta.column([[11, 12, 13], [21, 22, 23, 24, 25, 26], [31, 32]])
    assert list(functional.slice(lists, 2, 3)) == [[12, 13], [22, 23, 24], [32]]
    assert list(functional.slice(lists, -2, 1)) == [[12], [25], [31]]
    assert list(functional.slice(lists, -3, 2)) == [[11, 12], [24, 25], []]
    assert list(functional.slice(lists, 9, 2)) == [[], [], []]
    assert list(functional.slice(ta.column([[1, None], None]), 2, 1)) == [[None], None]
    with pytest.raises(ValueError, match="start is 0"):
        functional.slice(lists, 0, 1)
    with pytest.raises(ValueError, match="length is -1"):
        functional.slice(lists, 1, -1)
    with pytest.raises(TypeError, match="columns of lists"):
        functional.slice(ta.column([1]), 1, 1)


def test_array_intersect_gives_what_both_lists_have_once():
    x = ta.column([[1, 2, 3], [1, 1, 2], [4], [None, 1], None])
    y = ta.column([[3, 1], [1, 1], [5], [1, None], [1]])
    assert list(functional.array_intersect(x, y)) == [[1, 3], [1], [], [None, 1], None]
    assert functional.array_intersect(ta.column([[1]]), ta.column([[1]])).dtype == dt.List(dt.int64)
    with pytest.raises(TypeError, match="in common"):
        functional.array_intersect(ta.column([[1]]), ta.column([["a"]]))


@pytest.mark.parametrize(
    ("values", "arguments", "expected"),
    [
        ([3.14, -1.0, 4.0, 0.0, 3.999], (0, 4, 3), [3, 0, 4, 1, 3]),
        ([3.14, -1.0, 4.0, 5.0], (4, 0, 3), [1, 4, 1, 0]),
        ([1, 2, 3, 9], ([2, 5],), [0, 1, 1, 2]),
        ([1.0, None], (0, 2, 2), [2, None]),
        ([math.inf, -math.inf], (0, 2, 2), [3, 0]),
        ([None, 5], ([5.0],), [None, 1]),
    ],
)
def test_width_bucket_counts_buckets_as_sql_does(values, arguments, expected):
    made = functional.width_bucket(ta.column(values), *arguments)
    assert (list(made), dt.is_int64(made.dtype)) == (expected, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 1, 0), "1 or more"), ((1, 1, 2), "differ"), ((0, math.inf, 2), "finite"), (([2, 1],), "rise")],
)
def test_width_bucket_refuses_buckets_of_no_width(arguments, message):
    with pytest.raises(ValueError, match=message):
        functional.width_bucket(ta.column([1.0]), *arguments)


def test_width_bucket_refuses_what_is_not_a_number():
    with pytest.raises(ValueError, match="not a number"):
        list(functional.width_bucket(ta.column([math.nan]), 0, 1, 2))
