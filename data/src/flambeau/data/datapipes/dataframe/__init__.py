"""Pipes of data frames of pandas or polars, and pipelines written like operations on one frame (a prototype)."""

from flambeau.data.datapipes.dataframe.pipes import (
    ConcatDataFramesPipe,
    DataFramesAsTuplesPipe,
    ExampleAggregateAsDataFrames,
    FilterDataFramesPipe,
    PerRowDataFramesPipe,
    ShuffleDataFramesPipe,
)
from flambeau.data.datapipes.dataframe.tracing import DataFrameTracer, Expression
from flambeau.data.datapipes.datapipe import DFIterDataPipe

__all__ = [
    "ConcatDataFramesPipe",
    "DFIterDataPipe",
    "DataFrameTracer",
    "DataFramesAsTuplesPipe",
    "ExampleAggregateAsDataFrames",
    "Expression",
    "FilterDataFramesPipe",
    "PerRowDataFramesPipe",
    "ShuffleDataFramesPipe",
]
