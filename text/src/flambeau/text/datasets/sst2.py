"""SST2: Sentences of film reviews, negative or positive.

References:
    Socher et al. 2013, Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank. EMNLP.
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

__all__ = ["SST2"]

DATASET_NAME = "SST2"
URL = "https://dl.fbaipublicfiles.com/glue/data/SST-2.zip"
MD5 = "9f81648d4199384278b86e315dac217c"
NUM_LINES = {"train": 67_349, "dev": 872, "test": 1_821}
_PATH = "SST-2.zip"
_EXTRACTED_FILES = {"train": "SST-2/train.tsv", "dev": "SST-2/dev.tsv", "test": "SST-2/test.tsv"}
_SPLITS = ("train", "dev", "test")


def _labelled(row: list[str]) -> tuple[str, int]:
    return row[0].strip(), int(row[1])


def _unlabelled(row: list[str]) -> tuple[str]:
    return (row[1].strip(),)


def _plan(split: str) -> Plan:
    return packed(
        sys.modules[__name__], split, Rows(_unlabelled if split == "test" else _labelled, delimiter="\t", skip=1)
    )


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def SST2(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Sentences of film reviews, negative or positive.

    Items are (sentence, 0 negative or 1 positive), and (sentence,) in the test split. Upstream: the text comes
    first here, and second in the other sets.

    Args:
        root: folder of all datasets, this one in `datasets/SST2`; the cache when left out.
        split: "train" (67,349), "dev" (872), "test" (1,821), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    (*texts("sentence"), label(optional=True)),
    task="text-classification",
    license="none stated; cite the paper",
    citation="@inproceedings{socher2013recursive, author={Socher, Richard and others}, title={Recursive Deep "
    "Models for Semantic Compositionality Over a Sentiment Treebank}, booktitle={EMNLP}, year={2013}}",
    homepage="https://nlp.stanford.edu/sentiment/",
    description="Sentences of film reviews, negative or positive; part of GLUE.",
)


@register_dataset(info=_INFO)
class SST2Items(IndexedText):
    """`SST2` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
