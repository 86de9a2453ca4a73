"""MNLI: Pairs of sentences: the first entails the second, contradicts it, or neither.

References:
    Williams, Nangia and Bowman 2018, A Broad-Coverage Challenge Corpus for Sentence Understanding through
    Inference. arXiv:1704.05426.
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
from flambeau.text.datasets._locations import Download
from flambeau.text.datasets._split_plan import Plan, describe, label, stream, texts

__all__ = ["MNLI"]

DATASET_NAME = "MNLI"
URL = "https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip"
MD5 = "0f70aaf66293b3c088a864891db51353"
NUM_LINES = {"train": 392_702, "dev_matched": 9_815, "dev_mismatched": 9_832}
_PATH = "multinli_1.0.zip"
_EXTRACTED_FILES = {
    "train": "multinli_1.0_train.txt",
    "dev_matched": "multinli_1.0_dev_matched.txt",
    "dev_mismatched": "multinli_1.0_dev_mismatched.txt",
}
LABEL_TO_INT = {"entailment": 0, "neutral": 1, "contradiction": 2}
_COPIES = (
    Download(
        url="https://dl.fbaipublicfiles.com/glue/data/MNLI.zip",
        path="MNLI.zip",
        digest="e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
    ),
)
_SPLITS = ("train", "dev_matched", "dev_mismatched")


def _labelled(row: list[str]) -> tuple[int, str, str] | None:
    return (LABEL_TO_INT[row[0]], row[5], row[6]) if row[0] in LABEL_TO_INT else None


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, Rows(_labelled, delimiter="\t", quoted=False, skip=1))


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def MNLI(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Pairs of sentences: the first entails the second, contradicts it, or neither.

    Items are (0 entailment, 1 neutral or 2 contradiction, sentence1, sentence2). Pairs on which the annotators
    did not agree (gold label "-") are left out.

    Args:
        root: folder of all datasets, this one in `datasets/MNLI`; the cache when left out.
        split: "train" (392,702), "dev_matched" (9,815), "dev_mismatched" (9,832), or a tuple of them; all
            when left out.

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
    license="OANC licence; parts CC-BY-3.0 and CC-BY-SA-3.0",
    citation="@inproceedings{williams2018mnli, author={Williams, Adina and Nangia, Nikita and Bowman, Samuel}, "
    "title={A Broad-Coverage Challenge Corpus for Sentence Understanding through Inference}, "
    "booktitle={NAACL}, year={2018}}",
    homepage="https://cims.nyu.edu/~sbowman/multinli/",
    description="Pairs of sentences that entail or contradict each other, or neither; part of GLUE.",
)


@register_dataset(info=_INFO)
class MNLIItems(IndexedText):
    """`MNLI` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
