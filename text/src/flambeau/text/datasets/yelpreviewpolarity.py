"""YelpReviewPolarity: Reviews of places, negative or positive.

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

__all__ = ["YelpReviewPolarity"]

DATASET_NAME = "YelpReviewPolarity"
URL = "https://drive.google.com/uc?export=download&id=0Bz8a_Dbh9QhbNUpYQ2N3SGlFaDg"
MD5 = "620c8ae4bd5a150b730f1ba9a7c6a4d3"
NUM_LINES = {"train": 560_000, "test": 38_000}
_PATH = "yelp_review_polarity_csv.tar.gz"
_EXTRACTED_FILES = {
    "train": "yelp_review_polarity_csv/train.csv",
    "test": "yelp_review_polarity_csv/test.csv",
}
# The same tables, packed anew.
_COPIES = (
    Download(
        url="https://s3.amazonaws.com/fast-ai-nlp/yelp_review_polarity_csv.tgz",
        path="yelp_review_polarity_csv.tgz",
        digest="528f22e286cad085948acbc3bea7e58188416546b0e364d0ae4ca0ce666abe35",
    ),
)
_SPLITS = ("train", "test")


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, CLASSIFICATION)


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def YelpReviewPolarity(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Reviews of places, negative or positive.

    Items are (1 negative or 2 positive, text).

    Args:
        root: folder of all datasets, this one in `datasets/YelpReviewPolarity`; the cache when left out.
        split: "train" (560,000), "test" (38,000), or a tuple of them; all when left out.

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
    description="Reviews of places from Yelp, negative or positive.",
)


@register_dataset(info=_INFO)
class YelpReviewPolarityItems(IndexedText):
    """`YelpReviewPolarity` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
