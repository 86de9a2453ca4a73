"""WNLI: Sentences with a pronoun, and what they say when it is resolved, rightly or wrongly.

References:
    Wang et al. 2018, GLUE: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding.
    arXiv:1804.07461.
"""

from __future__ import annotations

import sys
from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._families import packed
from flambeau.text.datasets._formats import Rows
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._split_plan import Plan, describe, label, stream, texts

__all__ = ["WNLI"]

DATASET_NAME = "WNLI"
URL = "https://dl.fbaipublicfiles.com/glue/data/WNLI.zip"
MD5 = "a1b4bd2861017d302d29e42139657a42"
NUM_LINES = {"train": 635, "dev": 71, "test": 146}
_PATH = "WNLI.zip"
_EXTRACTED_FILES = {"train": "WNLI/train.tsv", "dev": "WNLI/dev.tsv", "test": "WNLI/test.tsv"}
_SPLITS = ("train", "dev", "test")


def _labelled(row: list[str]) -> tuple[int, str, str]:
    return int(row[3]), row[1], row[2]


def _unlabelled(row: list[str]) -> tuple[str, str]:
    return row[1], row[2]


def _plan(split: str) -> Plan:
    return packed(
        sys.modules[__name__], split, Rows(_unlabelled if split == "test" else _labelled, delimiter="\t", skip=1)
    )


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def WNLI(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Sentences with a pronoun, and what they say when it is resolved, rightly or wrongly.

    Items are (0 wrong or 1 right, sentence1, sentence2), and (sentence1, sentence2) in the test split.

    Args:
        root: folder of all datasets, this one in `datasets/WNLI`; the cache when left out.
        split: "train" (635), "dev" (71), "test" (146), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    (label(optional=True), *texts("sentence1", "sentence2")),
    task="text-pair-classification",
    license="CC-BY-4.0",
    citation="@inproceedings{wang2018glue, author={Wang, Alex and others}, title={GLUE: A Multi-Task Benchmark and"
    " Analysis Platform for Natural Language Understanding}, booktitle={BlackboxNLP}, year={2018}}",
    homepage="https://arxiv.org/abs/1804.07461",
    description="Sentences with a pronoun that is resolved rightly or wrongly; part of GLUE.",
)


@register_dataset(info=_INFO)
class WNLIItems(IndexedText):
    """`WNLI` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
