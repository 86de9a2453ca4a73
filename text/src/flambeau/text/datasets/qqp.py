"""QQP: Pairs of questions that ask the same or do not.

References:
    Wang et al. 2018, GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding.
    arXiv:1804.07461.
"""

from __future__ import annotations

import sys
from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory
from flambeau.text.datasets._families import plain
from flambeau.text.datasets._formats import Rows
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._split_plan import Plan, describe, label, stream, texts

__all__ = ["QQP"]

DATASET_NAME = "QQP"
URL = "http://qim.fs.quoracdn.net/quora_duplicate_questions.tsv"
MD5 = "b6d5672bd9dc1e66ab2bb020ebeafb8d"
NUM_LINES = {"train": 404_290}
_PATH = "quora_duplicate_questions.tsv"
_SPLITS = ("train",)


def _labelled(row: list[str]) -> tuple[int, str, str]:
    return int(row[-1]), row[3], row[4]


def _plan(split: str) -> Plan:
    return plain(sys.modules[__name__], split, Rows(_labelled, delimiter="\t", skip=1))


@_create_dataset_directory(dataset_name=DATASET_NAME)
def QQP(root: str) -> IterDataPipe[Any]:
    """Pairs of questions that ask the same or do not.

    Items are (0 different or 1 the same, question1, question2).

    Args:
        root: folder of all datasets, this one in `datasets/QQP`; the cache when left out.

    Returns:
        A pipeline; files are fetched when it is first read.
    """
    return stream(_plan("train"), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    (label(), *texts("question1", "question2")),
    task="text-pair-classification",
    license="Quora's terms of service, for non-commercial use",
    citation="@inproceedings{wang2018glue, author={Wang, Alex and others}, title={GLUE: A Multi-Task Benchmark and"
    " Analysis Platform for Natural Language Understanding}, booktitle={BlackboxNLP}, year={2018}}",
    homepage="https://quoradata.quora.com/First-Quora-Dataset-Release-Question-Pairs",
    description="Pairs of questions from Quora that ask the same or do not; part of GLUE.",
)


@register_dataset(info=_INFO)
class QQPItems(IndexedText):
    """`QQP` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
