"""STSB: Pairs of sentences with how much they mean the same.

References:
    Wang et al. 2018, GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding.
    arXiv:1804.07461.
"""

from __future__ import annotations

import sys
from typing import Any

from flambeau.core.datasets import Field, register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._families import packed
from flambeau.text.datasets._formats import Rows
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._split_plan import Plan, describe, stream, texts

__all__ = ["STSB"]

DATASET_NAME = "STSB"
URL = "http://ixa2.si.ehu.es/stswiki/images/4/48/Stsbenchmark.tar.gz"
MD5 = "4eb0065aba063ef77873d3a9c8088811"
NUM_LINES = {"train": 5_749, "dev": 1_500, "test": 1_379}
_PATH = "Stsbenchmark.tar.gz"
_EXTRACTED_FILES = {
    "train": "stsbenchmark/sts-train.csv",
    "dev": "stsbenchmark/sts-dev.csv",
    "test": "stsbenchmark/sts-test.csv",
}
_SPLITS = ("train", "dev", "test")


def _scored(row: list[str]) -> tuple[int, float, str, str]:
    return int(row[3]), float(row[4]), row[5], row[6]


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, Rows(_scored, delimiter="\t", quoted=False), flat=True)


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def STSB(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Pairs of sentences with how much they mean the same.

    Items are (index, score from 0 to 5, sentence1, sentence2).

    Args:
        root: folder of all datasets, this one in `datasets/STSB`; the cache when left out.
        split: "train" (5,749), "dev" (1,500), "test" (1,379), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    (Field("index", "int"), Field("score", "float"), *texts("sentence1", "sentence2")),
    task="text-similarity",
    license="CC-BY-SA-4.0",
    citation="@inproceedings{wang2018glue, author={Wang, Alex and others}, title={GLUE: A Multi-Task Benchmark and"
    " Analysis Platform for Natural Language Understanding}, booktitle={BlackboxNLP}, year={2018}}",
    homepage="https://ixa2.si.ehu.eus/stswiki/index.php/STSbenchmark",
    description="Pairs of sentences with how much they mean the same, from 0 to 5; part of GLUE.",
)


@register_dataset(info=_INFO)
class STSBItems(IndexedText):
    """`STSB` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
