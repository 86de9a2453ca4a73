"""EnWik9: The first 10^9 bytes of the English Wikipedia's XML of March 2006.

References:
    Mahoney 2006, About the Test Data. http://mattmahoney.net/dc/textdata.html.
"""

from __future__ import annotations

import sys
from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory
from flambeau.text.datasets._families import packed
from flambeau.text.datasets._formats import Lines
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._split_plan import Plan, describe, stream, texts

__all__ = ["EnWik9"]

DATASET_NAME = "EnWik9"
URL = "http://mattmahoney.net/dc/enwik9.zip"
MD5 = "3e773f8a1577fda2e27f871ca17f31fd"
NUM_LINES = {"train": 13_147_026}
_PATH = "enwik9.zip"
_EXTRACTED_FILES = {"train": "enwik9"}
_SPLITS = ("train",)


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, Lines())


@_create_dataset_directory(dataset_name=DATASET_NAME)
def EnWik9(root: str) -> IterDataPipe[Any]:
    """The first 10^9 bytes of the English Wikipedia's XML of March 2006.

    Items are a line without its end.

    Args:
        root: folder of all datasets, this one in `datasets/EnWik9`; the cache when left out.

    Returns:
        A pipeline; files are fetched when it is first read.
    """
    return stream(_plan("train"), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    texts("line"),
    task="language-modeling",
    license="CC-BY-SA-3.0 and GFDL-1.2",
    citation="@misc{mahoney2006enwik9, author={Mahoney, Matt}, title={Large Text Compression Benchmark}, "
    "year={2006}, url={http://mattmahoney.net/dc/text.html}}",
    homepage="http://mattmahoney.net/dc/textdata.html",
    description="The first 10^9 bytes of the English Wikipedia's XML.",
)


@register_dataset(info=_INFO)
class EnWik9Items(IndexedText):
    """`EnWik9` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
