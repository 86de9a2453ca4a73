"""Programs for every public member of `TensorDictBase`: families here, the others in `tables/methods.txt`."""

from __future__ import annotations

from pathlib import Path

from flambeau.core.testing.differential import read_table

TABLES = Path(__file__).with_name("tables")

ELEMENTWISE = """
abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round sigmoid
sign sin sinh sqrt tan tanh trunc
"""
PREDICATES = "isfinite isnan isneginf isposinf isreal"
CASTS = """
bfloat16 bool complex128 complex32 complex64 double float float16 float32 float64 half int int16 int32 int64 int8 uint16
uint32 uint64 uint8 qint32 qint8 quint4x2 quint8
"""

FAMILIES: dict[str, list[str]] = {
    **{name: [f"x.{name}()"] for name in f"{ELEMENTWISE} {PREDICATES}".split()},
    **{f"{name}_": [f"x.{name}_()"] for name in ELEMENTWISE.split()},
    **{name: [f"td.{name}()"] for name in CASTS.split()},
}
METHODS: dict[str, list[str]] = read_table(TABLES / "methods.txt")
STORAGE: dict[str, list[str]] = read_table(TABLES / "storage.txt")

_UNCOVERED = {
    "all_gather all_reduce broadcast gather_and_stack init_remote from_remote_init irecv isend recv reduce "
    "scatter send arecv asend": "need several processes",
    "record_stream": "needs an accelerator",
    "to_mds to_store from_zarr to_zarr": "need services or libraries that are not in the environment of peers",
}
UNCOVERED = {name: why for names, why in _UNCOVERED.items() for name in names.split()}
"""Members that no program covers, and why."""
