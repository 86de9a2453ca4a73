"""Functions of columns, for recommenders and text.

Lists may come as any list column. Missing rows give missing results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from flambeau.data.frame import dtypes as dt
from flambeau.data.frame._engine import pl
from flambeau.data.frame._plan import Apply
from flambeau.data.frame.column import Column
from flambeau.data.frame.errors import FrameTypeError, FrameValueError
from flambeau.data.frame.execution import align
from flambeau.data.frame.list_column import ListColumn
from flambeau.data.frame.numerical_column import NumericalColumn
from flambeau.data.frame.operators import choose, operand
from flambeau.data.frame.python_values import series_from

__all__ = [
    "add_tokens",
    "array_constructor",
    "array_except",
    "array_intersect",
    "bpe_tokenize",
    "bucketize",
    "clamp_list",
    "firstx",
    "get_cosine_similarity",
    "get_jaccard_similarity",
    "get_jagged_sequences",
    "get_max_count",
    "get_score_max",
    "get_score_min",
    "get_score_sum",
    "has_id_overlap",
    "id_overlap_count",
    "if_else",
    "lookup_indices",
    "scale_to_0_1",
    "scale_to_z_score",
    "sigmoid",
    "sigrid_hash",
    "slice",
    "width_bucket",
]


def bucketize(value_col: Column, borders: ListColumn | Sequence[float]) -> Any:
    """The number of the bucket that each value lies in.

    With i the place of the first border that is not less than x: i where that is the last border or none, else i where
    x is less than border i + 1, else i + 1. Not-a-number lies in the last bucket.

    Args:
        value_col: numbers, or lists of numbers. Whole numbers are compared as floats where a border is one.
        borders: at least one, not falling, no value more than twice; a column of lists must hold one list.

    Returns:
        int32, 0 to len(borders), or lists of them.

    Raises:
        ValueError: borders are missing, fall, or repeat.
        TypeError: for columns of anything else.

    Example:
        >>> from flambeau.data.frame import column
        >>> list(bucketize(column([1, 2, 3, 5, 8, 10, 11]), [2, 5, 10]))
        [0, 0, 1, 1, 2, 2, 3]
    """
    item = _item(value_col, dt.is_numerical, "bucketize")
    limits = _borders(borders)
    wide = dt.promote(item, dt.float32) if any(isinstance(one, float) for one in limits) else item
    if dt.is_integer(wide):
        wide = dt.int64
    of, dtype = _like(value_col, wide), _like(value_col, dt.Int32(item.nullable))
    return value_col._made(value_col._rows, Apply("bucketize", (value_col._term,), dtype, borders=limits, of=of))


def width_bucket(x: Column, bound1: Any, bound2: float | None = None, n: int | None = None) -> NumericalColumn:
    """The number of the bucket that each value lies in, of buckets of one width or between borders, as in SQL.

    Args:
        x: numbers.
        bound1: where the first bucket begins; or, alone, the borders, rising.
        bound2: where the last ends; less than `bound1` for buckets that fall.
        n: how many buckets, 1 or more.

    Returns:
        int64. Buckets of one width: 1 to n, 0 before the first, n + 1 from the end of the last on. Borders: how many
        do not exceed the value.

    Raises:
        ValueError: bounds that are equal or not finite, no buckets, borders that do not rise; on computing,
            not-a-number.

    Example:
        >>> from flambeau.data.frame import column
        >>> list(width_bucket(column([-1.0, 0.0, 3.2, 10.0]), 0, 10, 5)), list(width_bucket(column([1, 2, 9]), [2, 5]))
        ([0, 1, 2, 6], [0, 1, 2])
    """
    if not dt.is_numerical(x.dtype):
        raise FrameTypeError(f"width_bucket is for numbers, got {x.dtype}.")
    dtype = dt.Int64(x.is_nullable)
    if bound2 is None and n is None:
        borders = [float(one) for one in bound1]
        if any(not low < high for low, high in pairwise([-math.inf, *borders])):
            raise FrameValueError(f"width_bucket: borders rise and are finite, got {borders}.")
        return _numbers(x._apply("border_bucket", dtype, borders=borders))
    if bound2 is None or n is None:
        raise FrameTypeError("width_bucket needs borders alone, or both bounds and a number of buckets.")
    if n < 1:
        raise FrameValueError(f"width_bucket: n is {n}, expected 1 or more buckets.")
    low, high = float(bound1), float(bound2)
    if low == high or not (math.isfinite(low) and math.isfinite(high)):
        raise FrameValueError(f"width_bucket: bounds are finite and differ, got {bound1} and {bound2}.")
    return _numbers(x._apply("width_bucket", dtype, low=low, high=high, count=int(n)))


def _borders(borders: Any) -> list[float]:
    limits = borders.to_pylist() if isinstance(borders, Column) else list(borders)
    if limits and isinstance(limits[0], list):
        if any(one != limits[0] for one in limits):
            raise FrameValueError("bucketize: borders differ between rows; give one list of them.")
        limits = limits[0]
    if not limits or any(one is None for one in limits):
        raise FrameValueError(f"bucketize needs at least one border, none of them missing, got {limits}.")
    for place in range(1, len(limits)):
        if not limits[place - 1] <= limits[place]:
            raise FrameValueError(f"bucketize: borders must not fall, got {limits[place - 1]}, {limits[place]}.")
        if place > 1 and limits[place - 2] == limits[place]:
            raise FrameValueError(f"bucketize: border {limits[place]} occurs more than twice.")
    return limits


def _item(col: Column, test: Any, name: str) -> dt.DType:
    """The type of numbers in a column of them or of lists of them."""
    item = col.dtype.item_dtype if isinstance(col.dtype, dt.List) else col.dtype
    if not test(item):
        raise FrameTypeError(f"{name} is not defined for {col.dtype}; expected numbers, or lists of them.")
    return item


def _like(col: Column, item: dt.DType) -> dt.DType:
    """A type of numbers or lists, as the column is."""
    if isinstance(col.dtype, dt.List):
        return dt.List(item, col.dtype.nullable, col.dtype.fixed_size)
    return item.with_null(item.nullable or col.dtype.nullable)


def sigrid_hash(value_col: Column, salt: int, max_value: int) -> Any:
    """Ids hashed to [0, max_value), so that they index an embedding table of that many rows.

    h is the 128-to-64-bit hash of CityHash (Pike and Alakuijala 2011) of the salt and of the id mixed by Thomas
    Wang's 64-bit function; the result is h as a signed number modulo max_value, never negative.

    Args:
        value_col: whole numbers, or lists of them.
        salt: chooses the hash function, any int64.
        max_value: greater than 0.

    Returns:
        int64, or lists of them.

    Raises:
        ValueError: max_value is not positive.
        TypeError: for columns of anything else.

    Example:
        >>> from flambeau.data.frame import column
        >>> list(sigrid_hash(column([1, 2, 3, 5, 8, 10, 11]), 0, 100))
        [60, 54, 54, 4, 67, 2, 25]
    """
    item = _item(value_col, dt.is_integer, "sigrid_hash")
    if not 0 < max_value < 1 << 63:
        raise FrameValueError(f"sigrid_hash: max_value is {max_value}, expected a positive int64.")
    dtype = _like(value_col, dt.Int64(item.nullable))
    term = Apply("sigrid_hash", (value_col._term,), dtype, salt=int(salt), max_value=int(max_value))
    return value_col._made(value_col._rows, term)


def firstx(col: ListColumn, num_to_copy: int) -> ListColumn:
    """The first items of every list.

    Raises:
        ValueError: the number is negative.

    Example:
        >>> from flambeau.data.frame import column
        >>> list(firstx(column([[1, 2, 3], [5, 8], []]), 2))
        [[1, 2], [5, 8], []]
    """
    dtype = _list_type(col, "firstx")
    if num_to_copy < 0:
        raise FrameValueError(f"firstx: {num_to_copy} items cannot be copied; give 0 or more.")
    return _lists(col._apply("firstx", dt.List(dtype.item_dtype, dtype.nullable), count=int(num_to_copy)))


def clamp_list(col: ListColumn, lo: float, hi: float) -> ListColumn:
    """The items of every list held between two bounds.

    Raises:
        ValueError: the lower bound exceeds the upper.

    Example:
        >>> from flambeau.data.frame import column
        >>> list(clamp_list(column([[1, -5, 9], []]), 0, 4))
        [[1, 0, 4], []]
    """
    dtype = _list_type(col, "clamp_list")
    if not dt.is_numerical(dtype.item_dtype):
        raise FrameTypeError(f"clamp_list is for lists of numbers, got {dtype}.")
    if lo > hi:
        raise FrameValueError(f"clamp_list: the lower bound {lo} exceeds the upper bound {hi}.")
    return _lists(col._apply("list_clip", dtype, low=lo, high=hi))


def _list_type(col: Column, name: str) -> dt.List:
    if not isinstance(col.dtype, dt.List):
        raise FrameTypeError(f"{name} is for columns of lists, got {col.dtype}.")
    return col.dtype


def has_id_overlap(input_ids: ListColumn, matching_ids: ListColumn) -> NumericalColumn:
    """1.0 where two lists of ids have one in common, else 0.0; float32."""
    return _overlap("has_id_overlap", input_ids, matching_ids)


def id_overlap_count(input_ids: ListColumn, matching_ids: ListColumn) -> NumericalColumn:
    """How many ids two lists have in common, each as often as both have it; float32.

    Example:
        >>> from flambeau.data.frame import column
        >>> list(id_overlap_count(column([[1, 1, 2, 3]]), column([[1, 1, 1, 2, 9]])))
        [3.0]
    """
    return _overlap("id_overlap_count", input_ids, matching_ids)


def get_max_count(input_ids: ListColumn, matching_ids: ListColumn) -> NumericalColumn:
    """How often ids that two lists share occur, each as often as the list that has it more often; float32."""
    return _overlap("get_max_count", input_ids, matching_ids)


def get_jaccard_similarity(input_ids: ListColumn, matching_ids: ListColumn) -> NumericalColumn:
    """What two lists of ids share, by what they have together: o / (n + m - o); 0 for two empty lists; float32."""
    return _overlap("get_jaccard_similarity", input_ids, matching_ids)


def get_cosine_similarity(
    input_ids: ListColumn, input_id_scores: ListColumn, matching_ids: ListColumn, matching_id_scores: ListColumn
) -> NumericalColumn:
    """The cosine of the angle between two vectors that have the sum of an id's scores as that id's coordinate; float32.

    Raises:
        ValueError: on computing: a row whose scores have norm zero, or that are not one for each id.
    """
    columns = (input_ids, input_id_scores, matching_ids, matching_id_scores)
    return _scored("get_cosine_similarity", columns, (1, 3))


def get_score_sum(
    input_ids: ListColumn, input_id_scores: ListColumn, matching_ids: ListColumn, matching_id_scores: ListColumn
) -> NumericalColumn:
    """The sum of the matching scores of ids that both lists have; float32.

    Example:
        >>> from flambeau.data.frame import column
        >>> ids, scores = column([[1, 2, 3]]), column([[1.0, 2.0, 3.0]])
        >>> list(get_score_sum(ids, scores, column([[1, 2]]), column([[5.0, 4.0]])))
        [9.0]
    """
    return _scored("get_score_sum", (input_ids, input_id_scores, matching_ids, matching_id_scores), (1, 3))


def get_score_min(input_ids: ListColumn, matching_ids: ListColumn, matching_id_scores: ListColumn) -> NumericalColumn:
    """The least of the matching scores of ids that both lists have, 0 where they have none; float32."""
    return _scored("get_score_min", (input_ids, matching_ids, matching_id_scores), (2,))


def get_score_max(input_ids: ListColumn, matching_ids: ListColumn, matching_id_scores: ListColumn) -> NumericalColumn:
    """The greatest of the matching scores of ids that both lists have, 0 where they have none; float32."""
    return _scored("get_score_max", (input_ids, matching_ids, matching_id_scores), (2,))


def _overlap(name: str, *columns: ListColumn) -> NumericalColumn:
    for one in columns:
        if not dt.is_integer(_list_type(one, name).item_dtype):
            raise FrameTypeError(f"{name}: ids are lists of whole numbers, got {one.dtype}.")
    return _joined("overlap", name, columns)


def _scored(name: str, columns: Sequence[ListColumn], scores: Sequence[int]) -> NumericalColumn:
    for place, one in enumerate(columns):
        item = _list_type(one, name).item_dtype
        if place in scores and not dt.is_floating(item):
            raise FrameTypeError(f"{name}: scores are lists of floats, got {one.dtype}.")
        if place not in scores and not dt.is_integer(item):
            raise FrameTypeError(f"{name}: ids are lists of whole numbers, got {one.dtype}.")
    return _joined("scored_overlap", name, columns)


def _joined(operation: str, what: str, columns: Sequence[Column]) -> NumericalColumn:
    first = columns[0]
    terms = tuple(align(first._rows, one._rows, one._term) for one in columns)
    dtype = dt.Float32(any(one.dtype.nullable for one in columns))
    return _numbers(first._made(first._rows, Apply(operation, terms, dtype, what=what)))


def _numbers(made: Column) -> NumericalColumn:
    assert isinstance(made, NumericalColumn)  # its type is one of numbers
    return made


def _lists(made: Column) -> ListColumn:
    assert isinstance(made, ListColumn)  # its type is one of lists
    return made


def array_constructor(*args: Column) -> ListColumn:
    """The values of several columns in a row as that row's list, missing ones included.

    Raises:
        TypeError: the columns' types have none in common.

    Example:
        >>> from flambeau.data.frame import column
        >>> list(array_constructor(column([1, 2]), column([3, None])))
        [[1, 3], [2, None]]
    """
    if not args:
        raise FrameValueError("array_constructor needs at least one column, got none.")
    first = args[0]
    terms = [operand(first, one) for one in args]
    item: dt.DType | None = terms[0].dtype
    for one in terms[1:]:
        item = item and dt.common_dtype(item, one.dtype)
    if item is None:
        raise FrameTypeError(f"array_constructor: no type in common among {[str(one.dtype) for one in terms]}.")
    return _lists(first._made(first._rows, Apply("array_constructor", tuple(terms), dt.List(item))))


def array_except(x: ListColumn, y: ListColumn) -> ListColumn:
    """The items of x that y does not have, each once, in x's order; a missing item equals another.

    Example:
        >>> from flambeau.data.frame import column
        >>> list(array_except(column([[1, 2, 2, 3]]), column([[2]])))
        [[1, 3]]
    """
    mine, theirs = _list_type(x, "array_except"), _list_type(y, "array_except")
    terms = (x._term, align(x._rows, y._rows, y._term))
    dtype = dt.List(mine.item_dtype, mine.nullable or theirs.nullable)
    return _lists(x._made(x._rows, Apply("array_except", terms, dtype)))


def array_intersect(x: ListColumn, y: ListColumn) -> ListColumn:
    """The items that x and y have both, each once, in x's order; a missing item equals another.

    Example:
        >>> from flambeau.data.frame import column
        >>> list(array_intersect(column([[3, 1, 3, 2]]), column([[2, 3, 4]])))
        [[3, 2]]
    """
    mine, theirs = _list_type(x, "array_intersect"), _list_type(y, "array_intersect")
    if (item := dt.common_dtype(mine.item_dtype, theirs.item_dtype)) is None:
        raise FrameTypeError(f"array_intersect: {mine} and {theirs} have no type of items in common; cast one of them.")
    terms = (x._term, align(x._rows, y._rows, y._term))
    item = item.with_null(mine.item_dtype.nullable and theirs.item_dtype.nullable)
    dtype = dt.List(item, mine.nullable or theirs.nullable)
    return _lists(x._made(x._rows, Apply("array_intersect", terms, dtype)))


def slice(col: ListColumn, start: int, length: int) -> ListColumn:
    """So many items of every list from a place on; places count from 1, or from the end where negative, as in SQL.

    `.list.slice` counts as Python does.

    Args:
        col: lists.
        start: place of the first item; a list that has no such place gives an empty one.
        length: 0 or more.

    Raises:
        ValueError: the start is 0, or the length negative.

    Example:
        >>> from flambeau.data.frame import column
        >>> list(slice(column([[11, 12, 13], [31, 32], [41]]), 2, 2))
        [[12, 13], [32], []]
    """
    dtype = _list_type(col, "slice")
    if start == 0:
        raise FrameValueError("slice: places count from 1 (or -1, from the end); start is 0.")
    if length < 0:
        raise FrameValueError(f"slice: length is {length}, expected 0 or more.")
    free = dt.List(dtype.item_dtype, dtype.nullable)
    return _lists(col._apply("list_part", free, start=int(start), length=int(length)))


def add_tokens(col: ListColumn, tokens: Sequence[Any], begin: bool = True) -> ListColumn:
    """The same tokens before (`begin`) or after those of every list.

    Example:
        >>> from flambeau.data.frame import column
        >>> list(add_tokens(column([[1, 2], []]), [0]))
        [[0, 1, 2], [0]]
    """
    dtype = _list_type(col, "add_tokens")
    series_from(list(tokens), dtype.item_dtype)  # refuses what the lists cannot hold
    free = dt.List(dtype.item_dtype, dtype.nullable)
    return _lists(col._apply("add_tokens", free, tokens=list(tokens), begin=begin))


def bpe_tokenize(tokenizer: Any, text: Column) -> ListColumn:
    """Text as lists of token ids, as text.

    Args:
        tokenizer: an object with `encode(text)`, `tokenize(text)` or a call, that gives a list of ids or tokens, such
            as those of flambeau.text. It is called once for each text that occurs.
        text: text.

    Returns:
        Lists of str.
    """
    if not dt.is_string(text.dtype):
        raise FrameTypeError(f"bpe_tokenize is for text, got {text.dtype}.")
    return _lists(text._apply("per_unique", dt.List(dt.string, text.is_nullable), function=_Tokens(tokenizer)))


class _Tokens:
    """A tokenizer's tokens as text."""

    def __init__(self, tokenizer: Any) -> None:
        names = ("encode", "tokenize", "__call__")
        self.name = next((one for one in names if callable(getattr(tokenizer, one, None))), None)
        if self.name is None:
            raise FrameTypeError(f"{type(tokenizer).__name__} has none of {names}; give a tokenizer.")
        self.tokenizer = tokenizer

    def __call__(self, text: str) -> list[str]:
        return [str(one) for one in getattr(self.tokenizer, self.name or "")(text)]


def lookup_indices(vocab: Any, tokens: Column) -> Any:
    """Tokens as the numbers that a vocabulary gives them.

    Args:
        vocab: a dictionary, or an object indexed by token, such as flambeau.text's Vocab, which has a default for
            tokens that it does not hold.
        tokens: text, or lists of text.

    Returns:
        int64, or lists of them.

    Raises:
        KeyError, RuntimeError: on computing, what the vocabulary raises for a token that it does not hold.
    """
    _item(tokens, dt.is_string, "lookup_indices")
    find = _Lookup(vocab)
    if isinstance(tokens, ListColumn):
        item = dt.Int64(tokens.item_dtype.nullable)
        return tokens._apply("items_result", dt.List(item, tokens.is_nullable), function=_LookupItems(find))
    return tokens._apply("per_unique", dt.Int64(tokens.is_nullable), function=find)


class _Lookup:
    """One token's number."""

    def __init__(self, vocab: Any) -> None:
        self.vocab = vocab

    def __call__(self, token: str) -> int:
        return int(self.vocab[token])


class _LookupItems:
    """Many tokens' numbers, each looked up once."""

    def __init__(self, find: _Lookup) -> None:
        self.find = find

    def __call__(self, items: Any) -> Any:
        known = {one: self.find(one) for one in items.unique().drop_nulls().to_list()}
        if not known:
            return pl.Series([None] * len(items), dtype=pl.Int64)
        return items.replace_strict(list(known), list(known.values()), return_dtype=pl.Int64, default=None)


def if_else(cond: Column, x: Any, y: Any) -> Any:
    """The same as `frame.if_else`."""
    return choose(cond, x, y)


def sigmoid(col: Column) -> NumericalColumn:
    """1 / (1 + exp(-x)); of whole numbers as float32."""
    _item(col, dt.is_numerical, "sigmoid")
    dtype = col.dtype if dt.is_floating(col.dtype) else dt.Float32(col.is_nullable)
    return _numbers(col._apply("sigmoid", dtype))


def scale_to_0_1(col: NumericalColumn) -> NumericalColumn:
    """(x - min) / (max - min), over the whole column; the sigmoid of x where all values are one.

    Returns:
        float32 for whole numbers, else the column's type.
    """
    _item(col, dt.is_numerical, "scale_to_0_1")
    low, high = col.min(), col.max()
    if low is None or not low < high:
        return sigmoid(col)
    return _numbers((col - low) / (high - low))


def scale_to_z_score(col: NumericalColumn) -> NumericalColumn:
    """(x - mean) / std over the whole column, with the unbiased deviation; x itself where that is zero or undefined.

    Returns:
        float32 for whole numbers, else the column's type.
    """
    _item(col, dt.is_numerical, "scale_to_z_score")
    wide = col if dt.is_floating(col.dtype) else col.cast(dt.Float32(col.is_nullable))
    mean, std = col.mean(), col.std()
    if mean is None or not std:
        return wide
    return _numbers((wide - mean) / std)


def get_jagged_sequences(*columns: ListColumn) -> list[Any]:
    """Columns of lists as jagged tensors, computed together.

    Returns:
        A `flambeau.data.jagged.JaggedValues` for each column: all items in a row, lengths and offsets. Missing lists
        are empty; the memory of items is shared with the column where none is missing.

    Raises:
        TypeError: for anything but lists of numbers and booleans.

    Example:
        >>> from flambeau.data.frame import column
        >>> jagged, = get_jagged_sequences(column([[1, 2], [], [3]]))
        >>> jagged.values().tolist(), jagged.offsets().tolist()
        ([1, 2, 3], [0, 2, 2, 3])
    """
    from flambeau.data.frame.pytorch.jagged import to_jagged

    for one in columns:
        _list_type(one, "get_jagged_sequences")
    return [to_jagged(one) for one in columns]
