"""RTE: Pairs of sentences of which the first entails the second or does not.

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

__all__ = ["RTE"]

DATASET_NAME = "RTE"
URL = "https://dl.fbaipublicfiles.com/glue/data/RTE.zip"
MD5 = "bef554d0cafd4ab6743488101c638539"
NUM_LINES = {"train": 2_490, "dev": 277, "test": 3_000}
_PATH = "RTE.zip"
_EXTRACTED_FILES = {"train": "RTE/train.tsv", "dev": "RTE/dev.tsv", "test": "RTE/test.tsv"}
MAP_LABELS = {"entailment": 0, "not_entailment": 1}
_SPLITS = ("train", "dev", "test")


def _labelled(row: list[str]) -> tuple[int, str, str]:
    return MAP_LABELS[row[3]], row[1], row[2]


def _unlabelled(row: list[str]) -> tuple[str, str]:
    return row[1], row[2]


def _plan(split: str) -> Plan:
    return packed(
        sys.modules[__name__],
        split,
        Rows(_unlabelled if split == "test" else _labelled, delimiter="\t", quoted=False, skip=1),
    )


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def RTE(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Pairs of sentences of which the first entails the second or does not.

    Items are (0 entailment or 1 not_entailment, sentence1, sentence2), and (sentence1, sentence2) in the test
    split.

    Args:
        root: folder of all datasets, this one in `datasets/RTE`; the cache when left out.
        split: "train" (2,490), "dev" (277), "test" (3,000), or a tuple of them; all when left out.

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
    license="none stated; cite the paper",
    citation="@inproceedings{wang2018glue, author={Wang, Alex and others}, title={GLUE: A Multi-Task Benchmark and"
    " Analysis Platform for Natural Language Understanding}, booktitle={BlackboxNLP}, year={2018}}",
    homepage="https://aclweb.org/aclwiki/Recognizing_Textual_Entailment",
    description="Pairs of sentences of which the first entails the second or does not; part of GLUE.",
)


@register_dataset(info=_INFO)
class RTEItems(IndexedText):
    """`RTE` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
