"""YahooAnswers: Questions with their best answers in ten topics.

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

__all__ = ["YahooAnswers"]

DATASET_NAME = "YahooAnswers"
URL = "https://drive.google.com/uc?export=download&id=0Bz8a_Dbh9Qhbd2JNdDBsQUdocVU"
MD5 = "f3f9899b997a42beb24157e62e3eea8d"
NUM_LINES = {"train": 1_400_000, "test": 60_000}
_PATH = "yahoo_answers_csv.tar.gz"
_EXTRACTED_FILES = {"train": "yahoo_answers_csv/train.csv", "test": "yahoo_answers_csv/test.csv"}
# The same tables, packed anew.
_COPIES = (
    Download(
        url="https://s3.amazonaws.com/fast-ai-nlp/yahoo_answers_csv.tgz",
        path="yahoo_answers_csv.tgz",
        digest="2d4277855faf8b35259009425fa8f7fe1888b5644b47165508942d000f4c96ae",
    ),
)
_SPLITS = ("train", "test")


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, CLASSIFICATION)


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def YahooAnswers(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Questions with their best answers in ten topics.

    Items are (class from 1 to 10, question and answer). Classes: 1 Society & Culture, 2 Science & Mathematics,
    3 Health, 4 Education & Reference, 5 Computers & Internet, 6 Sports, 7 Business & Finance, 8 Entertainment &
    Music, 9 Family & Relationships, 10 Politics & Government.

    Args:
        root: folder of all datasets, this one in `datasets/YahooAnswers`; the cache when left out.
        split: "train" (1,400,000), "test" (60,000), or a tuple of them; all when left out.

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
    license="for research (Yahoo! Webscope)",
    citation="@inproceedings{zhang2015character, author={Zhang, Xiang and Zhao, Junbo and LeCun, Yann}, "
    "title={Character-level Convolutional Networks for Text Classification}, booktitle={NeurIPS}, "
    "year={2015}}",
    homepage="https://arxiv.org/abs/1509.01626",
    description="Questions with their best answers in ten topics.",
)


@register_dataset(info=_INFO)
class YahooAnswersItems(IndexedText):
    """`YahooAnswers` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
