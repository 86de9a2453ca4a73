"""AG_NEWS: News articles in four topics.

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
from flambeau.text.datasets._families import CLASSIFICATION, plain
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._split_plan import Plan, describe, label, stream, texts

__all__ = ["AG_NEWS"]

DATASET_NAME = "AG_NEWS"
URL = {
    "train": "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/train.csv",
    "test": "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/test.csv",
}
MD5 = {
    "train": "b1a00f826fdfbd249f79597b59e1dc12",
    "test": "d52ea96a97a2d943681189a97654912d",
}
NUM_LINES = {"train": 120_000, "test": 7_600}
_SPLITS = ("train", "test")


def _plan(split: str) -> Plan:
    return plain(sys.modules[__name__], split, CLASSIFICATION)


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def AG_NEWS(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """News articles in four topics.

    Items are (label, title and description): 1 World, 2 Sports, 3 Business, 4 Sci/Tech.

    Args:
        root: folder of all datasets, this one in `datasets/AG_NEWS`; the cache when left out.
        split: "train" (120,000), "test" (7,600), or a tuple of them; all when left out.

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
    license="for research and other non-commercial use",
    citation="@inproceedings{zhang2015character, author={Zhang, Xiang and Zhao, Junbo and LeCun, Yann}, "
    "title={Character-level Convolutional Networks for Text Classification}, booktitle={NeurIPS}, "
    "year={2015}}",
    homepage="https://arxiv.org/abs/1509.01626",
    description="News articles in four topics.",
)


@register_dataset(info=_INFO)
class AG_NEWSItems(IndexedText):
    """`AG_NEWS` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
