"""CoNLL2000Chunking: Sentences of the Wall Street Journal with parts of speech and chunks.

References:
    Tjong Kim Sang and Buchholz 2000, Introduction to the CoNLL-2000 Shared Task: Chunking.
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

__all__ = ["CoNLL2000Chunking"]

DATASET_NAME = "CoNLL2000Chunking"
URL = {
    "train": "https://www.clips.uantwerpen.be/conll2000/chunking/train.txt.gz",
    "test": "https://www.clips.uantwerpen.be/conll2000/chunking/test.txt.gz",
}
MD5 = {
    "train": "6969c2903a1f19a83569db643e43dcc8",
    "test": "a916e1c2d83eb3004b38fc6fcd628939",
}
NUM_LINES = {"train": 8_936, "test": 2_012}
_EXTRACTED_FILES = {"train": "train.txt", "test": "test.txt"}
_SPLITS = ("train", "test")


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, Iob(separator=" "))


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def CoNLL2000Chunking(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Sentences of the Wall Street Journal with parts of speech and chunks.

    Items are [words, parts of speech, chunks], three lists of one length.

    Args:
        root: folder of all datasets, this one in `datasets/CoNLL2000Chunking`; the cache when left out.
        split: "train" (8,936), "test" (2,012), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    (Field("words", "list"), Field("pos", "list"), Field("chunks", "list")),
    task="token-classification",
    license="for research; the text is of the Wall Street Journal corpus (LDC)",
    citation="@inproceedings{tjong2000conll, author={Tjong Kim Sang, Erik and Buchholz, Sabine}, "
    "title={Introduction to the CoNLL-2000 Shared Task: Chunking}, booktitle={CoNLL}, year={2000}}",
    homepage="https://www.clips.uantwerpen.be/conll2000/chunking/",
    description="Sentences with parts of speech and chunks.",
)


@register_dataset(info=_INFO)
class CoNLL2000ChunkingItems(IndexedText):
    """`CoNLL2000Chunking` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
