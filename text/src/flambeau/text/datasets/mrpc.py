"""MRPC: Pairs of sentences from the news that say the same or do not.

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
from flambeau.text.datasets._families import plain
from flambeau.text.datasets._formats import Rows
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._split_plan import Plan, describe, label, stream, texts

__all__ = ["MRPC"]

DATASET_NAME = "MRPC"
URL = {
    "train": "https://dl.fbaipublicfiles.com/senteval/senteval_data/msr_paraphrase_train.txt",
    "test": "https://dl.fbaipublicfiles.com/senteval/senteval_data/msr_paraphrase_test.txt",
}
MD5 = {
    "train": "793daf7b6224281e75fe61c1f80afe35",
    "test": "e437fdddb92535b820fe8852e2df8a49",
}
NUM_LINES = {"train": 4_076, "test": 1_725}
_SPLITS = ("train", "test")


def _labelled(row: list[str]) -> tuple[int, str, str]:
    return int(row[0]), row[3], row[4]


def _plan(split: str) -> Plan:
    return plain(sys.modules[__name__], split, Rows(_labelled, delimiter="\t", quoted=False, skip=1))


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def MRPC(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Pairs of sentences from the news that say the same or do not.

    Items are (0 different or 1 the same, sentence1, sentence2).

    Args:
        root: folder of all datasets, this one in `datasets/MRPC`; the cache when left out.
        split: "train" (4,076), "test" (1,725), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    (label(), *texts("sentence1", "sentence2")),
    task="text-pair-classification",
    license="Microsoft Research data licence",
    citation="@inproceedings{wang2018glue, author={Wang, Alex and others}, title={GLUE: A Multi-Task Benchmark and"
    " Analysis Platform for Natural Language Understanding}, booktitle={BlackboxNLP}, year={2018}}",
    homepage="https://www.microsoft.com/en-us/download/details.aspx?id=52398",
    description="Pairs of sentences from the news that say the same or do not; part of GLUE.",
)


@register_dataset(info=_INFO)
class MRPCItems(IndexedText):
    """`MRPC` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
