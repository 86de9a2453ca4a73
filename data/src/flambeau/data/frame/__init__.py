"""Data frames over Arrow memory for recommender and text preprocessing, on one machine and on many.

::

    import flambeau.data.frame as ta

    frame = ta.scan_parquet("criteo/*.parquet")
    frame["dense"] = (frame["int_0"].fill_null(0) + 3).log()
    frame["sparse"] = ta.functional.sigrid_hash(frame["cat_0"].fill_null(0), salt=0, max_value=100_000)
    batch = frame.head(1024).to_tensor()

What is done to a frame is recorded and computed by Polars when values are asked for; `frame.scale(ray)` has the same
program computed by a cluster. Upstream's names are kept: `torcharrow.X` is `flambeau.data.frame.X`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.data.frame.column import Column
    from flambeau.data.frame.construction import (
        column,
        concat,
        dataframe,
        from_arrow,
        from_pandas,
        from_polars,
        from_pysequence,
        if_else,
        scan_arrow,
        scan_csv,
        scan_jsonl,
        scan_parquet,
    )
    from flambeau.data.frame.dataframe import DataFrame
    from flambeau.data.frame.expression import me
    from flambeau.data.frame.list_column import ListColumn
    from flambeau.data.frame.map_column import MapColumn
    from flambeau.data.frame.numerical_column import NumericalColumn
    from flambeau.data.frame.reading import reader
    from flambeau.data.frame.scope import Scope
    from flambeau.data.frame.string_column import StringColumn

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "column": ("Column",),
        "dataframe": ("DataFrame",),
        "expression": ("me",),
        "list_column": ("ListColumn",),
        "construction": (
            "column",
            "concat",
            "dataframe",
            "from_arrow",
            "from_pandas",
            "from_polars",
            "from_pysequence",
            "if_else",
            "scan_arrow",
            "scan_csv",
            "scan_jsonl",
            "scan_parquet",
        ),
        "map_column": ("MapColumn",),
        "numerical_column": ("NumericalColumn",),
        "reading": ("reader",),
        "scope": ("Scope",),
        "string_column": ("StringColumn",),
    },
    submodules=("dtypes", "errors", "functional", "interop", "pytorch"),
)
