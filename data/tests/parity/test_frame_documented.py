"""What TorchArrow's documentation says of calls, call by call: its reference, its tutorial, and the Velox functions.

Calls are written as a user writes them, with `import torcharrow as ta` turned into ours. A result is the values, and
the type where the documentation states it (Velox' results are nullable throughout; ours only where a value may be
missing, so nullability is compared only where it follows from the data).
"""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import functional, me


def add_ten(num):
    return num + 10


def add_ten_or_0(num):
    return 0 if num is None else num + 10


def add_unary(tup):
    return tup[0] + tup[1]


def add_binary(a, b):
    return a + b


def even_as_text(x) -> str | None:
    return str(x) if x % 2 == 0 else None


def times_ten(val) -> list[int]:
    return [x * 10 for x in val]


def joined(a: int, b: int) -> str:
    return f"{a}_{b}"


def odd_or_none(a: int) -> int | None:
    return a if a % 2 == 1 else None


class Both(NamedTuple):
    plus: int
    minus: int


def both(a: int, b: int) -> Both:
    return Both(a + b, a - b)


def selfish(words):
    return [words, words] if words and words[0] == "I" else []


@dataclass
class State:
    state: int

    def add(self, x):
        return self.state + x


WORDS = ["Finland", "Colombia", "Florida", "Japan", "Puerto Rico", "Russia", "france"]
STRUCT = dt.Struct([dt.Field("t1", dt.int64), dt.Field("t2", dt.string)])

CONSTRUCTION = [
    ("ta.column([1, 2, None, 4])", [1, 2, None, 4], "Int64(nullable=True)"),
    ("ta.column([2.718, 3.14, 42.42])", [2.718, 3.14, 42.42], "float32"),
    ("ta.column([True, False])", [True, False], "boolean"),
    ('ta.column(["abc", None])', ["abc", None], "String(nullable=True)"),
    ('ta.column([["hello", "world"], ["how"]], dtype=dt.List(dt.string))',
     [["hello", "world"], ["how"]], "List(string)"),
    ('ta.column([{"helsinki": [-1.3, 21.5]}, {"algiers": [11.2, 25.2]}])',
     [{"helsinki": [-1.3, 21.5]}, {"algiers": [11.2, 25.2]}], "Map(string, List(float32))"),
    ("ta.column(dt.string)", [], "string"),
    ("ta.column(dt.int64).length", 0, None),
    ("ta.column([1, 2, 3], dtype=dt.int32)", [1, 2, 3], "int32"),
    ("ta.column([None] * 3, dtype=dt.Int64(nullable=True))", [None] * 3, "Int64(nullable=True)"),
    ("ta.column([1, 2, None, 4]).null_count", 1, None),
    ("len(ta.column([1, 2, None, 4]))", 4, None),
    ("ta.column([1, 2, None, 4]).is_nullable", True, None),
    ("ta.column([1]).device", "cpu", None),
    ('ta.dataframe({"a": [1, 2, 3], "b": [4, None, 6]})', [(1, 4), (2, None), (3, 6)], None),
    ('ta.dataframe({"a": [1, 2], "b": [1.0, None]}).dtype',
     dt.Struct([dt.Field("a", dt.int64), dt.Field("b", dt.Float32(nullable=True))]), None),
    ('ta.dataframe([(1, "a"), (2, "b"), (3, "c")], dtype=STRUCT)', [(1, "a"), (2, "b"), (3, "c")], None),
    ('ta.dataframe([(1, "a"), (2, "b")], columns=["t1", "t2"]).dtype', STRUCT, None),
    ('ta.dataframe({"a": [1, 2], "b": ta.dataframe({"b1": [11, 22], "b2": [111, 222]})})',
     [(1, (11, 111)), (2, (22, 222))], None),
    ("ta.dataframe().columns", [], None),
    ("ta.dataframe().length", 0, None),
    ('ta.dataframe(dt.Struct([dt.Field("a", dt.int64)])).append([(0,), (1,)])', [(0,), (1,)], None),
    ('ta.from_pysequence([1, 2, None])', [1, 2, None], "Int64(nullable=True)"),
    ('ta.concat([ta.column([1, 2]), ta.column([3])])', [1, 2, 3], "int64"),
    ('ta.column([["hello"], ["how", "are"]]).append([["I", "am", "fine"]])',
     [["hello"], ["how", "are"], ["I", "am", "fine"]], "List(string)"),
    ('ta.dataframe({"a": [1]}).append([(7,), (8,)])', [(1,), (7,), (8,)], None),
    ('ta.if_else(ta.column([True, False, True, False]), ta.column([1, 2, 3, 4]), ta.column([10, 20, 30, 40]))',
     [1, 20, 3, 40], "int64"),
    ('ta.if_else(ta.column([True, None]), ta.column([1, 2]), ta.column([3, 4]))', [1, None], None),
    ("ta.column([1, 2]).cast(dt.float64)", [1.0, 2.0], "float64"),
    ("ta.column([1.6, -1.6]).cast(dt.int32)", [1, -1], "int32"),
    ('ta.column(["1", "2"]).cast(dt.int64)', [1, 2], "int64"),
    ("ta.column([1, 0]).cast(dt.boolean)", [True, False], "boolean"),
]  # fmt: skip

ROWS = [
    ("frame.head(2)", [(0, 6, 0), (1, 5, 1)], None),
    ("frame.tail(1)", [(6, 0, 6)], None),
    ("len(frame.head())", 5, None),
    ('frame.sort(by=["c", "b"]).head(2)', [(0, 6, 0), (1, 5, 1)], None),
    ('frame.sort(by="a", ascending=False).head(1)', [(6, 0, 6)], None),
    ("frame[1]", (1, 5, 1), None),
    ("frame[-1]", (6, 0, 6), None),
    ("frame[2:6:2]", [(2, 4, 2), (4, 2, 4)], None),
    ('frame["b":].columns', ["b", "c"], None),
    ('frame[:"b"].columns', ["a"], None),
    ('frame["a":"c"].columns', ["a", "b"], None),
    ('frame[["a", "c"]].columns', ["a", "c"], None),
    ("frame[[0, 2]]", [(0, 6, 0), (2, 4, 2)], None),
    ("frame[[True] + [False] * 6]", [(0, 6, 0)], None),
    ('frame[frame["a"] > 4]', [(5, 1, 5), (6, 0, 6)], None),
    ('frame[frame["a"].isin([5])]', [(5, 1, 5)], None),
    ('frame.where(frame["a"] > 5)', [(6, 0, 6)], None),
    ('frame.where(me["a"] > 1, me["b"] > 3)', [(2, 4, 2)], None),
    ('frame.filter(lambda a, c: a + c == 2, columns=["a", "c"])', [(1, 5, 1)], None),
    ("frame.drop([\"c\", \"a\"]).columns", ["b"], None),
    ('frame.rename({"a": "c", "c": "a"}).columns', ["c", "b", "a"], None),
    ('frame.reorder(["c", "b", "a"]).head(1)', [(0, 6, 0)], None),
    ('frame.select("*", "-a", d=me["a"] + me["b"]).head(1)', [(6, 0, 6)], None),
    ('frame.select("a").columns', ["a"], None),
    ('"a" in frame, "x" in frame', (True, False), None),
    ("ta.column([1, 2, 3, 4]).filter([True, False, True, False])", [1, 3], None),
    ("ta.column([1, 2, 3, 4]).filter(lambda x: x % 2 == 1)", [1, 3], None),
    ("ta.column([3, None, 1]).sort()", [1, 3, None], None),
    ("ta.column([3, None, 1]).sort(ascending=False)", [3, 1, None], None),
    ('ta.column([3, None, 1]).sort(na_position="first")', [None, 1, 3], None),
    ("ta.column([1, 2, 3])[1]", 2, None),
    ("ta.column([1, None]).is_valid_at(1)", False, None),
    ("[len(part) for part in ta.column([1, 2, 3]).batch(2)]", [2, 1], None),
    ("ta.Column.unbatch(ta.column([1, 2, 3]).batch(2))", [1, 2, 3], None),
    ('ta.dataframe({"A": ["a", "b", "a", "b"], "B": [1, 2, 3, 4]}).groupby(["A"]).sum()', [("a", 4), ("b", 6)], None),
    ('ta.dataframe({"A": ["a", "b", "a", "b"], "B": [1, 2, 3, 4]}).groupby(["A"]).sum().columns', ["A", "B.sum"], None),
    ('ta.dataframe({"A": ["a", "b"], "B": [1, 2]}).groupby(["A"]).select(n=me["B"].count())',
     [("a", 1), ("b", 1)], None),
    ('ta.dataframe({"a": [1, 1, 2], "b": [1, 2, 3]}).groupby("a").size', [(1, 2), (2, 1)], None),
]  # fmt: skip

MISSING = [
    ("ta.column([1, 2, None, 4]).fill_null(999)", [1, 2, 999, 4], "int64"),
    ("ta.column([1, 2, None, 4]).drop_null()", [1, 2, 4], "int64"),
    ('ta.column(["a", None]).fill_null("b")', ["a", "b"], "string"),
    ('ta.dataframe({"a": [None, 2, 17.0]}).fill_null(99.0)', [(99.0,), (2.0,), (17.0,)], None),
    ('ta.dataframe({"a": [None, 2, 17.0]}).drop_null()', [(2.0,), (17.0,)], None),
    ('ta.dataframe({"a": [1, None], "b": [None, None]}, dtype=NULLS).drop_null(how="all")', [(1, None)], None),
    ('ta.dataframe({"a": [None, 2, 17.0, 7, 2], "b": [1, 2, 17.0, 2, 1]}).drop_duplicates(subset="a")',
     [(None, 1.0), (2.0, 2.0), (17.0, 17.0), (7.0, 2.0)], None),
    ('ta.dataframe({"a": [None, 2, 17.0, 7, 2], "b": [1, 2, 17.0, 2, 1]}).drop_duplicates(subset="b")',
     [(None, 1.0), (2.0, 2.0), (17.0, 17.0)], None),
    ("ta.column([1, 2, 1, None, None]).drop_duplicates()", [1, 2, None], None),
    ("ta.column([1, None, 3]) + ta.column([11, None, None])", [12, None, None], "Int64(nullable=True)"),
    ("ta.column([1, None]).isin([1, 2])", [True, False], "boolean"),
    ('ta.dataframe({"a": [1, 4, 2, 7, None]}).isin([1, 2, 3])', [(True,), (False,), (True,), (False,), (False,)], None),
    ("ta.column([True, None]).all(), ta.column([False, None]).any()", (True, False), None),
]  # fmt: skip

OPERATORS = [
    ("c + d", [5, 6, 9], "int64"),
    ("c - 1", [-1, 0, 2], "int64"),
    ("1 - c", [1, 0, -2], "int64"),
    ("c * d", [0, 5, 18], "int64"),
    ("c / 2", [0.0, 0.5, 1.5], "float32"),
    ("c / d", [0.0, 0.2, 0.5], "float32"),
    ("d // 2", [2, 2, 3], "int64"),
    ("2 // d", [0, 0, 0], "int64"),
    ("e // d", [0.0, 0.0, 1.0], "float32"),
    ("d % 3", [2, 2, 0], "int64"),
    ("-5 % d", [0, 0, 1], "int64"),
    ("c**2", [0, 1, 9], "int64"),
    ("2**c", [1, 2, 8], "int64"),
    ("c**d", [0, 1, 729], "int64"),
    ("-c", [0, -1, -3], "int64"),
    ("+c", [0, 1, 3], "int64"),
    ("abs(-c)", [0, 1, 3], "int64"),
    ("c == 1", [False, True, False], "boolean"),
    ("c != d", [True, True, True], "boolean"),
    ("c <= 2", [True, True, False], "boolean"),
    ("c < d", [True, True, True], "boolean"),
    ("c >= d", [False, False, False], "boolean"),
    ("c > 2", [False, False, True], "boolean"),
    ("g & h", [False, False, True, False], "boolean"),
    ("g | h", [True, False, True, True], "boolean"),
    ("g ^ h", [True, False, False, True], "boolean"),
    ("True & g", [True, False, True, False], "boolean"),
    ("True | g", [True, True, True, True], "boolean"),
    ("True ^ g", [False, True, False, True], "boolean"),
    ("~g", [False, True, False, True], "boolean"),
    ("i & j", [1, 2, 0], "int64"),
    ("i | j", [3, 2, 3], "int64"),
    ("i ^ j", [2, 0, 3], "int64"),
    ("2 & i", [0, 2, 0], "int64"),
    ("~i", [-2, -3, -1], "int64"),
    ('ta.column(["abc", "de", None]) + ta.column(["12", None, "55"])', ["abc12", None, None], None),
    ('ta.column(["abc", None]) + "_suffix"', ["abc_suffix", None], None),
    ('ta.column(["abc", "de", "f", None]) == "de"', [False, True, False, None], None),
    ('ta.column(["abc", "de", "f", None]) < "de"', [True, False, False, None], None),
    ("ta.column([[1, 2], [3, 4]]) == ta.column([[0, 1], [3, 4]])", [False, True], None),
    ('ta.dataframe({"a": c}) == ta.dataframe({"a": d})', [(False,), (False,), (False,)], None),
    ('ta.dataframe({"a": c}) + 1', [(1,), (2,), (4,)], None),
    ('(ta.dataframe({"a": c}) == ta.dataframe({"a": c})).all()', True, None),
]  # fmt: skip

NUMBERS = [
    ("ta.column([-1.5, 2.0, None]).abs()", [1.5, 2.0, None], None),
    ("ta.column([1.2, -1.2]).ceil()", [2.0, -1.0], None),
    ("ta.column([1.2, -1.2]).floor()", [1.0, -2.0], None),
    ("ta.column([0.5, 1.5, 2.5]).round()", [0.0, 2.0, 2.0], None),
    ("ta.column([1.234, 5.678]).round(1)", [1.2, 5.7], None),
    ("ta.column([1.0, math.e]).log()", [0.0, 1.0], None),
    ("t.min(), t.max(), t.sum()", (1, 999, 1006), None),
    ("t.mean()", 251.5, None),
    ("t.std()", 498.335, None),
    ("t.median()", 3.0, None),
    ("ta.column([1, 2, 2, 3]).mode()", 2, None),
    ("t.quantile([25, 50, 75])", [1.75, 3.0, 252.75], None),
    ("t.describe().columns", ["statistic", "value"], None),
    ('ta.column([1, 2, 3]).describe()',
     [("count", 3.0), ("mean", 2.0), ("std", 1.0), ("min", 1.0), ("25%", 1.5), ("50%", 2.0),
      ("75%", 2.5), ("max", 3.0)],
     None),
    ('ta.dataframe({"a": [1, 2, 3]}).describe()',
     [("count", 3.0), ("mean", 2.0), ("std", 1.0), ("min", 1.0), ("25%", 1.5), ("50%", 2.0),
      ("75%", 2.5), ("max", 3.0)],
     None),
    ("s.cumsum()", [1, 5, 7, 14, None], None),
    ("s.cumprod()", [1, 4, 8, 56, None], None),
    ("s.cummin()", [1, 1, 1, 1, None], None),
    ("s.cummax()", [1, 4, 4, 7, None], None),
    ("s.is_unique, ta.column([1, 1]).is_unique", (True, False), None),
    ("ta.column([1, 2, 3]).is_monotonic_increasing, ta.column([3, 2]).is_monotonic_decreasing", (True, True), None),
    ('ta.dataframe({"a": [1, 4, None]}).min()["a"][0], ta.dataframe({"a": [1, 4, None]}).sum()["a"][0]', (1, 5), None),
    ('ta.dataframe({"A": [1, 2, 3], "B": [1, 1, 1]}).nunique()', [("A", 3), ("B", 1)], None),
    ("ta.column([1, 2, 3, 4]).reduce(operator.mul)", 24, None),
    ("ta.column([]  , dt.int64).reduce(operator.mul, 7)", 7, None),
]  # fmt: skip

FUNCTIONS_OF_USERS = [
    ("ta.column([1, 2, None, 4]).map({1: 111})", [111, None, None, None], "Int64(nullable=True)"),
    ("ta.column([1, 2, None, 4]).map(defaultdict(lambda: -1, {1: 111}))", [111, -1, -1, -1], None),
    ('ta.column([1, 2, None, 4]).map(add_ten, na_action="ignore")', [11, 12, None, 14], "Int64(nullable=True)"),
    ("ta.column([1, 2, None, 4]).map(add_ten_or_0, na_action=None)", [11, 12, 0, 14], None),
    ("ta.column([1, 2, None, 4]).map(str, dtype=dt.string)", ["1", "2", "None", "4"], "string"),
    ("ta.column([1, 2, 3, 4]).map(even_as_text)", [None, "2", None, "4"], "String(nullable=True)"),
    ("ta.column([1, 2, 3]).map(State(55).add)", [56, 57, 58], "int64"),
    ("ta.column([1, 2, 3]).map(odd_or_none)", [1, None, 3], "Int64(nullable=True)"),
    ('ta.dataframe({"a": [1, 2, 3], "b": [1, 2, 3]}).map(add_unary, dtype=dt.int64)', [2, 4, 6], "int64"),
    ('ta.dataframe({"a": [1, 2], "b": ["x", "y"], "c": [1, 2]}).map(add_binary, columns=["a", "c"], dtype=dt.int64)',
     [2, 4], "int64"),
    ('ta.dataframe({"a": [17, 29, 30], "b": [3, 5, 11]}).map(divmod, columns=["a", "b"], dtype=QUOTIENT)',
     [(5, 2), (5, 4), (2, 8)], None),
    ('ta.dataframe({"a": [1, 2], "b": [11, 22]}).map(joined, columns=["a", "b"])', ["1_11", "2_22"], "string"),
    ('ta.dataframe({"a": [1, 2], "b": [11, 22]}).map(both, columns=["a", "b"])', [(12, -10), (24, -20)], None),
    ("ta.column([1, 2, 3, 4]).transform(times_ten, format=\"python\")", [10, 20, 30, 40], "int64"),
    ('ta.column([1, 2]).transform(lambda rows: [x + 1 for x in rows])', [2, 3], "int64"),
    ('ta.dataframe({"a": [1, 2], "b": [11, 22]}).transform(add_binary, columns=["a", "b"], dtype=dt.int64)',
     [12, 24], None),
    ('ta.column([["I", "am"], ["you"]]).flatmap(selfish)', [["I", "am"], ["I", "am"]], None),
    ("ta.column([1, 2]).flatmap(lambda x: [x] * x)", [1, 2, 2], None),
]  # fmt: skip

TEXT = [
    ('ta.column(["what a wonderful world!", "really?"]).str.upper()', ["WHAT A WONDERFUL WORLD!", "REALLY?"], None),
    ('ta.column(["UPPER", "lower"]).str.lower()', ["upper", "lower"], None),
    ('ta.column(["what a wonderful world!", "really?"]).str.split(" ")',
     [["what", "a", "wonderful", "world!"], ["really?"]], "List(string)"),
    ('ta.column(["a b  c"]).str.split()', [["a", "b", "c"]], None),
    ('ta.column(["a,b,c"]).str.split(",", 1)', [["a", "b,c"]], None),
    ('ta.column(["abc", "de", ""]).str.length()', [3, 2, 0], "int64"),
    ('ta.column(["abc", "de"]).str.slice(stop=2)', ["ab", "de"], None),
    ('ta.column(["abc", "de"]).str.slice(1, 2)', ["b", "e"], None),
    ('ta.column(["  ab", " cde\\n  "]).str.strip()', ["ab", "cde"], None),
    ('ta.column(["", "abc", "123", "äöå", None]).str.isalpha()', [False, True, False, True, None], None),
    ('ta.column(["", "XYZ123", ",.!", None]).str.isalnum()', [False, True, False, None], None),
    ('ta.column(["123", "\\u00b2", "abc"]).str.isdecimal()', [True, False, False], None),
    ('ta.column(["+3.e12", "abc", "0"]).str.isnumeric()', [False, False, True], None),
    ('ta.column(["\\n", "\\t", " ", "", "a"]).str.isspace()', [True, True, True, False, False], None),
    ('ta.column([".abc"]).str.islower()', [True], None),
    ('ta.column(["UPPER", "lower", ".ABC", "123"]).str.isupper()', [True, False, True, False], None),
    ('ta.column(["A B C", "abc", " "]).str.istitle()', [True, False, False], None),
    ('ta.column(["hello.this", "h", ""]).str.startswith("h")', [True, True, False], None),
    ('ta.column(["hello.this", "h", ""]).str.endswith("this")', [True, False, False], None),
    ('ta.column(["hello.this", "this.is_24", "h"]).str.find("this")', [6, 0, -1], None),
    ('ta.column(["hello.this"]).str.replace("this", "that", regex=False)', ["hello.that"], None),
    ('ta.column(["a1b22"]).str.replace("[0-9]+", "#")', ["a#b#"], None),
    ('ta.column(WORDS).str.count("(^F.*)")', [1, 0, 1, 0, 0, 0, 0], None),
    ('ta.column(WORDS).str.match("(^P.*)")', [False, False, False, False, True, False, False], None),
    ('ta.column(WORDS).str.contains("^F.*")', [True, False, True, False, False, False, False], None),
    ('ta.column(["Puerto Rico", "Japan"]).str.findall("[tCc]o")', [["to", "co"], []], None),
    ('ta.column(["a", "b"]).str.cat(ta.column(["1", "2"]))', ["a1", "b2"], None),
]  # fmt: skip

LISTS_AND_MAPS = [
    ('ta.column([["what", "a"], ["really?"]]).list.join(sep="-")', ["what-a", "really?"], None),
    ("ta.column([[1, 2], [], None]).list.length()", [2, 0, None], None),
    ("ta.column([[1, 2], [3, 4]]).list.get(1)", [2, 4], None),
    ("ta.column([[1, 2, 3], [4]]).list.slice(1)", [[2, 3], []], None),
    ("ta.column([[1, 2, 3], [4]]).list.slice(stop=2)", [[1, 2], [4]], None),
    ("ta.column([[1, 2, None, 3], [4, None, 5]]).list.vmap(lambda items: items + 1)",
     [[2, 3, None, 4], [5, None, 6]], None),
    ("ta.column([[1, 2], [3]]).list.map(lambda x: x * 2)", [[2, 4], [6]], None),
    ("ta.column([[1, 2], [3]]).list.filter(lambda x: x > 1)", [[2], [3]], None),
    ("ta.column([[1, 2], [3]]).list.reduce(operator.add, 0)", [3, 3], None),
    ("ta.column([[1, 2], [3]]).list.flatmap(lambda x: [x, x])", [[1, 1, 2, 2], [3, 3]], None),
    ('ta.column([{"abc": 123}, {"de": 45, "fg": 67}]).maps.keys()', [["abc"], ["de", "fg"]], None),
    ('ta.column([{"abc": 123}, {"de": 45, "fg": 67}]).maps.values()', [[123], [45, 67]], None),
    ('ta.column([{"abc": 123}, {"de": 45}]).maps.get("de", 0)', [0, 45], None),
    ('ta.column([{"abc": 123}, {"de": 45}]).maps.get("de")', [None, 45], None),
]  # fmt: skip

FUNCTIONAL = [
    ("functional.bucketize(ta.column([1, 2, 3, 5, 8, 10, 11]), [2, 5, 10])", [0, 0, 1, 1, 2, 2, 3], None),
    ("functional.sigrid_hash(ta.column([1, 2, 3, 5, 8, 10, 11]), 0, 100)", [60, 54, 54, 4, 67, 2, 25], None),
    ("functional.firstx(ta.column([[1, 2, 3], [5, 8], [13]]), 3)", [[1, 2, 3], [5, 8], [13]], None),
    ("functional.firstx(ta.column([[1, 2, 3], [5, 8], [13]]), 1)", [[1], [5], [13]], None),
    ("functional.has_id_overlap(ta.column([[1, 2, 3], [5, 8], [13]]), ta.column([[1], [2, 3], [13]]))",
     [1.0, 0.0, 1.0], None),
    ("functional.id_overlap_count(ta.column([[1, 2, 3], [5, 8], [13]]), ta.column([[1, 2, 3], [2, 3], [13]]))",
     [3.0, 0.0, 1.0], None),
    ("functional.get_max_count(ta.column([[1, 1, 2, 3], [5, 8], [13]]), ta.column([[1, 2, 3], [2, 3], [13] * 5]))",
     [4.0, 0.0, 5.0], None),
    ("functional.get_jaccard_similarity(ta.column([[1, 1, 2, 3], [5, 8]]), ta.column([[1, 2, 3], [2, 3]]))",
     [0.75, 0.0], None),
    ("functional.get_cosine_similarity(ids, scores, ids, ta.column([[5.0, 4.0, 3.0]]))", [0.831522], None),
    ("functional.get_score_sum(ids, scores, ta.column([[1, 2]]), ta.column([[5.0, 4.0]]))", [9.0], None),
    ("functional.get_score_min(ids, ta.column([[1, 2]]), ta.column([[5.0, 4.0]]))", [4.0], None),
    ("functional.get_score_max(ids, ta.column([[1, 2]]), ta.column([[5.0, 4.0]]))", [5.0], None),
    ("functional.scale_to_0_1(ta.column([1.0, 2.0, 3.0]))", [0.0, 0.5, 1.0], None),
    ("functional.scale_to_0_1(ta.column([0.0, 0.0]))", [0.5, 0.5], None),
    ("functional.scale_to_z_score(ta.column([1.0, 2.0, 3.0]))", [-1.0, 0.0, 1.0], None),
    ("functional.array_constructor(ta.column([1, 2, 3, 10, -1]), ta.column([2, 3, 5, 29, None]))",
     [[1, 2], [2, 3], [3, 5], [10, 29], [-1, None]], None),
    ("functional.array_except(ta.column([[1, 2, 3], [1, 2, 2], [1, None]]), ta.column([[1, 2], [1, 3], [1, 1, None]]))",
     [[3], [2], []], None),
    ("functional.array_intersect(ta.column([[1, 2, 3], [1, 2, 2]]), ta.column([[1, 2], [2, 2]]))", [[1, 2], [2]], None),
    ("functional.slice(ta.column([[11, 12, 13], [21, 22, 23, 24], [31, 32]]), 2, 3)",
     [[12, 13], [22, 23, 24], [32]], None),
    ("functional.width_bucket(ta.column([3.14, -1.0, 4.0]), 0, 4, 3)", [3, 0, 4], None),
    ("functional.add_tokens(ta.column([[1, 2], [3]]), [0], True)", [[0, 1, 2], [0, 3]], None),
    ("functional.add_tokens(ta.column([[1, 2], [3]]), [9], False)", [[1, 2, 9], [3, 9]], None),
    ('functional.lookup_indices({"a": 0, "b": 1}, ta.column([["a", "b"], ["b"]]))', [[0, 1], [1]], None),
    ("functional.if_else(ta.column([True, False]), ta.column([1, 2]), ta.column([3, 4]))", [1, 4], None),
    ("functional.clamp_list(ta.column([[1, 9], [-3]]), 0, 5)", [[1, 5], [0]], None),
]  # fmt: skip

REFUSED = [
    ("ta.column([[(1, 'a')]])", TypeError),
    ("ta.dataframe([(1, 'a')])", TypeError),
    ("ta.column()", TypeError),
    ("bool(ta.column([1]))", TypeError),
    ("ta.column([1]).fill_null(None)", TypeError),
    ("ta.column([1]).sort(by=['a'])", TypeError),
    ("ta.column([1]).map(str, columns=['a'])", TypeError),
    ("ta.column([1]).drop_duplicates(subset='a')", TypeError),
    ("ta.column([1]).filter(3)", TypeError),
    ("ta.column([1, 2]).transform(lambda rows: [1, *rows])", ValueError),
    ("ta.column([], dt.int64).reduce(operator.mul)", TypeError),
    ("ta.column([1]).quantile([101])", ValueError),
    ("ta.column([1]).quantile([50], 'linear')", TypeError),
    ("ta.column([1]).describe(include_columns=[dt.int64])", TypeError),
    ("ta.column(['a']).describe", AttributeError),
    ("ta.dataframe({'a': [1]})['b']", KeyError),
    ("ta.dataframe({'a': [1]}).drop(['b'])", KeyError),
    ("ta.dataframe({'a': [1]}).select('b')", KeyError),
    ("ta.Column.unbatch([])", ValueError),
    ("ta.if_else(ta.column([1]), 1, 2)", TypeError),
    ("dt.Struct([dt.Field('a', dt.int64)], nullable=True)", TypeError),
    ("list(ta.column([1]) // ta.column([0]))", ZeroDivisionError),
    ("list(ta.column([2]) ** -1)", ValueError),
    ("functional.bucketize(ta.column([1]), [])", ValueError),
    ("functional.sigrid_hash(ta.column([1]), 0, 0)", ValueError),
]  # fmt: skip

CELLS = [
    *CONSTRUCTION, *ROWS, *MISSING, *OPERATORS, *NUMBERS, *FUNCTIONS_OF_USERS, *TEXT, *LISTS_AND_MAPS, *FUNCTIONAL,
]  # fmt: skip


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What a user has at hand in the documentation's examples."""
    return {
        "ta": ta,
        "dt": dt,
        "functional": functional,
        "me": me,
        "math": math,
        "operator": operator,
        "defaultdict": defaultdict,
        "add_ten": add_ten,
        "add_ten_or_0": add_ten_or_0,
        "add_unary": add_unary,
        "add_binary": add_binary,
        "even_as_text": even_as_text,
        "times_ten": times_ten,
        "joined": joined,
        "odd_or_none": odd_or_none,
        "both": both,
        "selfish": selfish,
        "State": State,
        "STRUCT": STRUCT,
        "WORDS": WORDS,
        "frame": ta.dataframe({"a": list(range(7)), "b": list(reversed(range(7))), "c": list(range(7))}),
        "c": ta.column([0, 1, 3]),
        "d": ta.column([5, 5, 6]),
        "e": ta.column([1.0, 1, 7]),
        "g": ta.column([True, False, True, False]),
        "h": ta.column([False, False, True, True]),
        "i": ta.column([1, 2, 0]),
        "j": ta.column([3, 2, 3]),
        "s": ta.column([1, 4, 2, 7, None]),
        "t": ta.column([1, 2, 999, 4]),
        "ids": ta.column([[1, 2, 3]]),
        "scores": ta.column([[1.0, 2.0, 3.0]]),
        "NULLS": dt.Struct([dt.Field("a", dt.Int64(nullable=True)), dt.Field("b", dt.Int64(nullable=True))]),
        "QUOTIENT": dt.Struct([dt.Field("quotient", dt.int64), dt.Field("remainder", dt.int64)]),
    }


def same(found: Any, expected: Any) -> bool:
    """Equal values of equal kinds; floats to six digits, as they are in single precision."""
    if isinstance(expected, list | tuple):
        pairs = len(found) == len(expected) and zip(found, expected, strict=True)
        return bool(pairs) and isinstance(found, list | tuple) and all(same(*pair) for pair in pairs)
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, float):
        return isinstance(found, float) and math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-6)
    return type(found) is type(expected) and found == expected


@pytest.mark.parametrize(("call", "expected", "dtype"), CELLS, ids=[cell[0] for cell in CELLS])
def test_a_call_gives_what_is_documented(names, call, expected, dtype):
    made = eval(call, names)
    found = made.to_pylist() if isinstance(made, ta.Column) else made
    if expected == []:
        assert list(found) == []
    else:
        assert same(found, expected), found
    if dtype is not None:
        assert str(made.dtype) == dtype


@pytest.mark.parametrize(("call", "error"), REFUSED, ids=[cell[0] for cell in REFUSED])
def test_a_call_is_refused_as_is_documented(names, call, error):
    with pytest.raises(error):
        eval(call, names)
