"""Upstream's tables over all datasets, read from their modules at each look-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

NAMES = (
    "AG_NEWS", "AmazonReviewFull", "AmazonReviewPolarity", "CC100", "CNNDM", "CoLA", "CoNLL2000Chunking", "DBpedia",
    "EnWik9", "IMDB", "IWSLT2016", "IWSLT2017", "MNLI", "MRPC", "Multi30k", "PennTreebank", "QNLI", "QQP", "RTE",
    "SQuAD1", "SQuAD2", "SST2", "STSB", "SogouNews", "UDPOS", "WNLI", "WikiText103", "WikiText2", "YahooAnswers",
    "YelpReviewFull", "YelpReviewPolarity",
)  # fmt: skip


class Table(Mapping[str, Any]):
    """Name of a dataset -> what its module says.

    Args:
        attribute: name of the module's attribute; the dataset's function when None.
    """

    def __init__(self, attribute: str | None = None) -> None:
        self._attribute = attribute

    def __getitem__(self, name: str) -> Any:
        if name not in NAMES:
            raise KeyError(name)
        return getattr(import_module(f"flambeau.text.datasets.{name.lower()}"), self._attribute or name)

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {value!r}' for name, value in self.items())}}}"


DATASETS = Table()
URLS = Table("URL")
NUM_LINES = Table("NUM_LINES")
MD5 = Table("MD5")
