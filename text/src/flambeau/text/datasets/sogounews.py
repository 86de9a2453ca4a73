"""SogouNews: Chinese news articles in five topics, written in pinyin.

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

__all__ = ["SogouNews"]

DATASET_NAME = "SogouNews"
URL = "https://drive.google.com/uc?export=download&id=0Bz8a_Dbh9QhbUkVqNEszd0pHaFE"
MD5 = "0c1700ba70b73f964dd8de569d3fd03e"
NUM_LINES = {"train": 450_000, "test": 60_000}
_PATH = "sogou_news_csv.tar.gz"
_EXTRACTED_FILES = {"train": "sogou_news_csv/train.csv", "test": "sogou_news_csv/test.csv"}
_EXTRACTED_FILES_MD5 = {
    "train": "f36156164e6eac2feda0e30ad857eef0",
    "test": "59e493c41cee050329446d8c45615b38",
}
# The same tables, packed anew.
_COPIES = (
    Download(
        url="https://s3.amazonaws.com/fast-ai-nlp/sogou_news_csv.tgz",
        path="sogou_news_csv.tgz",
        digest="6b77fc935561d339b82aa552d7e31ea59eff492a494920579b3ce70604efb5c2",
    ),
)
_SPLITS = ("train", "test")


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, CLASSIFICATION)


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def SogouNews(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Chinese news articles in five topics, written in pinyin.

    Items are (class from 1 to 5, title and content). Classes: 1 sports, 2 finance, 3 entertainment, 4
    automobile, 5 technology.

    Args:
        root: folder of all datasets, this one in `datasets/SogouNews`; the cache when left out.
        split: "train" (450,000), "test" (60,000), or a tuple of them; all when left out.

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
    citation="@inproceedings{zhang2015character, author={Zhang, Xiang and Zhao, Junbo and LeCun, Yann}, "
    "title={Character-level Convolutional Networks for Text Classification}, booktitle={NeurIPS}, "
    "year={2015}}",
    homepage="https://arxiv.org/abs/1509.01626",
    description="Chinese news articles in five topics, in pinyin.",
)


@register_dataset(info=_INFO)
class SogouNewsItems(IndexedText):
    """`SogouNews` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
