"""YelpReviewFull: Reviews of places with one to five stars.

References:
    Zhang, Zhao and LeCun 2015, Character-level Convolutional Networks for Text Classification.
    arXiv:1509.01626.
"""

from __future__ import annotations

import sys
from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._families import CLASSIFICATION, packed
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._locations import Download
from flambeau.text.datasets._split_plan import Plan, describe, label, stream, texts

__all__ = ["YelpReviewFull"]

DATASET_NAME = "YelpReviewFull"
URL = "https://drive.google.com/uc?export=download&id=0Bz8a_Dbh9QhbZlU4dXhHTFhZQU0"
MD5 = "f7ddfafed1033f68ec72b9267863af6c"
NUM_LINES = {"train": 650_000, "test": 50_000}
_PATH = "yelp_review_full_csv.tar.gz"
_EXTRACTED_FILES = {"train": "yelp_review_full_csv/train.csv", "test": "yelp_review_full_csv/test.csv"}
# The same tables, packed anew.
_COPIES = (
    Download(
        url="https://s3.amazonaws.com/fast-ai-nlp/yelp_review_full_csv.tgz",
        path="yelp_review_full_csv.tgz",
        digest="56006b0a17a370f1e366504b1f2c3e3754e4a3dda17d3e718a885c552869a559",
    ),
)
_SPLITS = ("train", "test")


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, CLASSIFICATION)


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def YelpReviewFull(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Reviews of places with one to five stars.

    Items are (stars from 1 to 5, text).

    Args:
        root: folder of all datasets, this one in `datasets/YelpReviewFull`; the cache when left out.
        split: "train" (650,000), "test" (50,000), or a tuple of them; all when left out.

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
    license="Yelp dataset agreement",
    citation="@inproceedings{zhang2015character, author={Zhang, Xiang and Zhao, Junbo and LeCun, Yann}, "
    "title={Character-level Convolutional Networks for Text Classification}, booktitle={NeurIPS}, "
    "year={2015}}",
    homepage="https://arxiv.org/abs/1509.01626",
    description="Reviews of places from Yelp with one to five stars.",
)


@register_dataset(info=_INFO)
class YelpReviewFullItems(IndexedText):
    """`YelpReviewFull` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
