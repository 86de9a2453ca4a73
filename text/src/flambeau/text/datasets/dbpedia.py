"""DBpedia: Beginnings of Wikipedia's articles in fourteen classes.

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

__all__ = ["DBpedia"]

DATASET_NAME = "DBpedia"
URL = "https://drive.google.com/uc?export=download&id=0Bz8a_Dbh9QhbQ2Vic1kxMmZZQ1k"
MD5 = "dca7b1ae12b1091090db52aa7ec5ca64"
NUM_LINES = {"train": 560_000, "test": 70_000}
_PATH = "dbpedia_csv.tar.gz"
_EXTRACTED_FILES = {"train": "dbpedia_csv/train.csv", "test": "dbpedia_csv/test.csv"}
# The same tables, packed anew.
_COPIES = (
    Download(
        url="https://s3.amazonaws.com/fast-ai-nlp/dbpedia_csv.tgz",
        path="dbpedia_csv.tgz",
        digest="42db5221ddedddb673a4cabcc5f3a7d869714c878bcfe4ba94b29d14aa38e417",
    ),
)
_SPLITS = ("train", "test")


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, CLASSIFICATION)


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def DBpedia(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Beginnings of Wikipedia's articles in fourteen classes.

    Items are (class from 1 to 14, title and content). Classes: 1 Company, 2 EducationalInstitution, 3 Artist, 4
    Athlete, 5 OfficeHolder, 6 MeanOfTransportation, 7 Building, 8 NaturalPlace, 9 Village, 10 Animal, 11 Plant,
    12 Album, 13 Film, 14 WrittenWork.

    Args:
        root: folder of all datasets, this one in `datasets/DBpedia`; the cache when left out.
        split: "train" (560,000), "test" (70,000), or a tuple of them; all when left out.

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
    license="CC-BY-SA-3.0",
    citation="@inproceedings{zhang2015character, author={Zhang, Xiang and Zhao, Junbo and LeCun, Yann}, "
    "title={Character-level Convolutional Networks for Text Classification}, booktitle={NeurIPS}, "
    "year={2015}}",
    homepage="https://www.dbpedia.org/resources/latest-core/",
    description="Beginnings of Wikipedia's articles in fourteen classes.",
)


@register_dataset(info=_INFO)
class DBpediaItems(IndexedText):
    """`DBpedia` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
