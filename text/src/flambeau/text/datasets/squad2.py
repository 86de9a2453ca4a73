"""SQuAD2: Questions about paragraphs of Wikipedia, some of which have no answer there.

References:
    Rajpurkar, Jia and Liang 2018, Know What You Don't Know: Unanswerable Questions for SQuAD. arXiv:1806.03822.
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

__all__ = ["SQuAD2"]

DATASET_NAME = "SQuAD2"
URL = {
    "train": "https://rajpurkar.github.io/SQuAD-explorer/dataset/train-v2.0.json",
    "dev": "https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v2.0.json",
}
MD5 = {
    "train": "62108c273c268d70893182d5cf8df740",
    "dev": "246adae8b7002f8679c027697b0b7cf8",
}
NUM_LINES = {"train": 130_319, "dev": 11_873}
_SPLITS = ("train", "dev")


def _plan(split: str) -> Plan:
    return plain(sys.modules[__name__], split, Squad())


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def SQuAD2(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Questions about paragraphs of Wikipedia, some of which have no answer there.

    Items are (context, question, answers, where each begins in the context); [""], [-1] without an answer.

    Args:
        root: folder of all datasets, this one in `datasets/SQuAD2`; the cache when left out.
        split: "train" (130,319), "dev" (11,873), or a tuple of them; all when left out.

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
    citation="@inproceedings{rajpurkar2018know, author={Rajpurkar, Pranav and Jia, Robin and Liang, Percy}, "
    "title={Know What You Don't Know: Unanswerable Questions for SQuAD}, booktitle={ACL}, year={2018}}",
    homepage="https://rajpurkar.github.io/SQuAD-explorer/",
    description="Questions about paragraphs of Wikipedia, some without an answer.",
)


@register_dataset(info=_INFO)
class SQuAD2Items(IndexedText):
    """`SQuAD2` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
