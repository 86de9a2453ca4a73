"""UDPOS: English sentences of Universal Dependencies with parts of speech.

References:
    Silveira et al. 2014, A Gold Standard Dependency Corpus for English. LREC.
"""

from __future__ import annotations

import sys
from typing import Any

from flambeau.core.datasets import Field, register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._families import packed
from flambeau.text.datasets._formats import Iob
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._split_plan import Plan, describe, stream

__all__ = ["UDPOS"]

DATASET_NAME = "UDPOS"
URL = "https://bitbucket.org/sivareddyg/public/downloads/en-ud-v2.zip"
MD5 = "bdcac7c52d934656bae1699541424545"
NUM_LINES = {"train": 12_543, "valid": 2_002, "test": 2_077}
_EXTRACTED_FILES = {"train": "train.txt", "valid": "dev.txt", "test": "test.txt"}
_SPLITS = ("train", "valid", "test")


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, Iob())


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def UDPOS(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """English sentences of Universal Dependencies with parts of speech.

    Items are [words, universal tags, tags of the Penn Treebank], three lists of one length.

    Args:
        root: folder of all datasets, this one in `datasets/UDPOS`; the cache when left out.
        split: "train" (12,543), "valid" (2,002), "test" (2,077), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    (Field("words", "list"), Field("universal", "list"), Field("ptb", "list")),
    task="token-classification",
    license="CC-BY-SA-4.0",
    citation="@inproceedings{silveira2014gold, author={Silveira, Natalia and others}, title={A Gold Standard "
    "Dependency Corpus for English}, booktitle={LREC}, year={2014}}",
    homepage="https://universaldependencies.org/treebanks/en_ewt/",
    description="English sentences with universal parts of speech and those of the Penn Treebank.",
)


@register_dataset(info=_INFO)
class UDPOSItems(IndexedText):
    """`UDPOS` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
