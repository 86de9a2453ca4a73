"""Datasets: facts that are known without code, files that are verified, and building one by name.

`register_dataset` puts a class or function under a name, with a `DatasetInfo`; `list_datasets`, `get_dataset_info` and
`get_dataset` find it there. `fetch_dataset` brings its files into place, `verify_dataset` tells the state of each, and
`prepare_dataset` is what a dataset's constructor calls: the files are there, or an error says how to get them.
"""

from flambeau.core.datasets.info import Content, DatasetFile, DatasetInfo, Field, Gate
from flambeau.core.datasets.presence import FileStatus
from flambeau.core.datasets.registered import (
    fetch_dataset,
    get_dataset,
    get_dataset_info,
    list_datasets,
    prepare_dataset,
    register_dataset,
    verify_dataset,
)

__all__ = [
    "Content",
    "DatasetFile",
    "DatasetInfo",
    "Field",
    "FileStatus",
    "Gate",
    "fetch_dataset",
    "get_dataset",
    "get_dataset_info",
    "list_datasets",
    "prepare_dataset",
    "register_dataset",
    "verify_dataset",
]
