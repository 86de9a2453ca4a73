"""SQuAD1: Questions about paragraphs of Wikipedia.

References:
    Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text. arXiv:1606.05250.
"""

from __future__ import annotations

import sys
from typing import Any

from flambeau.core.datasets import Field, register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._families import plain
from flambeau.text.datasets._formats import Squad
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._split_plan import Plan, describe, stream, texts

__all__ = ["SQuAD1"]

DATASET_NAME = "SQuAD1"
URL = {
    "train": "https://rajpurkar.github.io/SQuAD-explorer/dataset/train-v1.1.json",
    "dev": "https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v1.1.json",
}
MD5 = {
    "train": "981b29407e0affa3b1b156f72073b945",
    "dev": "3e85deb501d4e538b6bc56f786231552",
}
NUM_LINES = {"train": 87_599, "dev": 10_570}
_SPLITS = ("train", "dev")


def _plan(split: str) -> Plan:
    return plain(sys.modules[__name__], split, Squad())


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def SQuAD1(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Questions about paragraphs of Wikipedia.

    Items are (context, question, answers, where each begins in the context).

    Args:
        root: folder of all datasets, this one in `datasets/SQuAD1`; the cache when left out.
        split: "train" (87,599), "dev" (10,570), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    (*texts("context", "question"), Field("answers", "list"), Field("answer_starts", "list")),
    task="question-answering",
    license="CC-BY-SA-4.0",
    citation="@inproceedings{rajpurkar2016squad, author={Rajpurkar, Pranav and others}, title={SQuAD: 100,000+ "
    "Questions for Machine Comprehension of Text}, booktitle={EMNLP}, year={2016}}",
    homepage="https://rajpurkar.github.io/SQuAD-explorer/",
    description="Questions about paragraphs of Wikipedia.",
)


@register_dataset(info=_INFO)
class SQuAD1Items(IndexedText):
    """`SQuAD1` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
