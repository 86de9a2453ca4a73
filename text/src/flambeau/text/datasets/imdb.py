"""IMDB: film reviews, negative or positive.

References:
    Maas et al. 2011, Learning Word Vectors for Sentiment Analysis. ACL.
"""

from __future__ import annotations

import sys
from pathlib import PurePosixPath
from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._families import fetched
from flambeau.text.datasets._formats import Lines
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._sources import Gathered
from flambeau.text.datasets._split_plan import Plan, describe, label, stream, texts

__all__ = ["IMDB"]

DATASET_NAME = "IMDB"
URL = "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
NUM_LINES = {"train": 25_000, "test": 25_000}
MAP_LABELS = {"neg": 1, "pos": 2}
_PATH = "aclImdb_v1.tar.gz"
_SPLITS = ("train", "test")


def _plan(split: str) -> Plan:
    folder = PurePosixPath(_PATH.removesuffix(".tar.gz"), split)
    source = Gathered(fetched(sys.modules[__name__], split), split, tuple(MAP_LABELS), str(folder))
    return Plan(DATASET_NAME, split, _SPLITS, source, Lines(tags=tuple(MAP_LABELS.values())))


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def IMDB(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Film reviews, negative or positive.

    Items are (1 negative or 2 positive, review). All negative ones come first: shuffle before training.

    Args:
        root: folder of all datasets, this one in `datasets/IMDB`; the cache when left out.
        split: "train" (25,000), "test" (25,000), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    (label(), *texts("text")),
    task="text-classification",
    license="none stated; cite the paper",
    citation="@inproceedings{maas2011learning, author={Maas, Andrew L. and others}, title={Learning Word Vectors for "
    "Sentiment Analysis}, booktitle={ACL}, year={2011}}",
    homepage="http://ai.stanford.edu/~amaas/data/sentiment/",
    description="Film reviews, negative or positive.",
)


@register_dataset(info=_INFO)
class IMDBItems(IndexedText):
    """`IMDB` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
