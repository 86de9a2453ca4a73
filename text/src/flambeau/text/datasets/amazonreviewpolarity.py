"""AmazonReviewPolarity: Reviews of products, negative or positive.

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

__all__ = ["AmazonReviewPolarity"]

DATASET_NAME = "AmazonReviewPolarity"
URL = "https://drive.google.com/uc?export=download&id=0Bz8a_Dbh9QhbaW12WVVZS2drcnM"
MD5 = "fe39f8b653cada45afd5792e0f0e8f9b"
NUM_LINES = {"train": 3_600_000, "test": 400_000}
_PATH = "amazon_review_polarity_csv.tar.gz"
_EXTRACTED_FILES = {
    "train": "amazon_review_polarity_csv/train.csv",
    "test": "amazon_review_polarity_csv/test.csv",
}
# The same tables, packed anew.
_COPIES = (
    Download(
        url="https://s3.amazonaws.com/fast-ai-nlp/amazon_review_polarity_csv.tgz",
        path="amazon_review_polarity_csv.tgz",
        digest="d2a3ee7a214497a5d1b8eaed7c8d7ba2737de00ada3b0ec46243983efa100361",
    ),
)
_SPLITS = ("train", "test")


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, CLASSIFICATION)


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def AmazonReviewPolarity(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Reviews of products, negative or positive.

    Items are (1 negative or 2 positive, title and text).

    Args:
        root: folder of all datasets, this one in `datasets/AmazonReviewPolarity`; the cache when left out.
        split: "train" (3,600,000), "test" (400,000), or a tuple of them; all when left out.

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
    description="Reviews of products from Amazon, negative or positive.",
)


@register_dataset(info=_INFO)
class AmazonReviewPolarityItems(IndexedText):
    """`AmazonReviewPolarity` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
