"""AmazonReviewFull: Reviews of products with one to five stars.

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

__all__ = ["AmazonReviewFull"]

DATASET_NAME = "AmazonReviewFull"
URL = "https://drive.google.com/uc?export=download&id=0Bz8a_Dbh9QhbZVhsUnRWRDhETzA"
MD5 = "57d28bd5d930e772930baddf36641c7c"
NUM_LINES = {"train": 3_000_000, "test": 650_000}
_PATH = "amazon_review_full_csv.tar.gz"
_EXTRACTED_FILES = {
    "train": "amazon_review_full_csv/train.csv",
    "test": "amazon_review_full_csv/test.csv",
}
_EXTRACTED_FILES_MD5 = {
    "train": "31b268b09fd794e0ca5a1f59a0358677",
    "test": "0f1e78ab60f625f2a30eab6810ef987c",
}
# The same tables, packed anew.
_COPIES = (
    Download(url="https://s3.amazonaws.com/fast-ai-nlp/amazon_review_full_csv.tgz", path="amazon_review_full_csv.tgz"),
)
_SPLITS = ("train", "test")


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, CLASSIFICATION)


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def AmazonReviewFull(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Reviews of products with one to five stars.

    Items are (stars from 1 to 5, title and text).

    Args:
        root: folder of all datasets, this one in `datasets/AmazonReviewFull`; the cache when left out.
        split: "train" (3,000,000), "test" (650,000), or a tuple of them; all when left out.

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
    license="none stated; cite the papers",
    citation="@inproceedings{zhang2015character, author={Zhang, Xiang and Zhao, Junbo and LeCun, Yann}, "
    "title={Character-level Convolutional Networks for Text Classification}, booktitle={NeurIPS}, "
    "year={2015}}",
    homepage="https://arxiv.org/abs/1509.01626",
    description="Reviews of products from Amazon with one to five stars.",
)


@register_dataset(info=_INFO)
class AmazonReviewFullItems(IndexedText):
    """`AmazonReviewFull` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
