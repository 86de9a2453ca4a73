"""CNNDM: news articles with highlights, for summaries.

References:
    Hermann et al. 2015, Teaching Machines to Read and Comprehend. arXiv:1506.03340.
    See, Liu and Manning 2017, Get To The Point: Summarization with Pointer-Generator Networks. arXiv:1704.04368.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._families import base_name
from flambeau.text.datasets._formats import StoryFiles
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._locations import Download
from flambeau.text.datasets._sources import Stories
from flambeau.text.datasets._split_plan import Plan, describe, stream, texts

__all__ = ["CNNDM"]

DATASET_NAME = "CNNDM"
SPLIT_LIST = {
    "cnn_train": "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists/cnn_wayback_training_urls.txt",
    "cnn_val": "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists/cnn_wayback_validation_urls.txt",
    "cnn_test": "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists/cnn_wayback_test_urls.txt",
    "dailymail_train": "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists/dailymail_wayback_training_urls.txt",
    "dailymail_val": "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists/dailymail_wayback_validation_urls.txt",
    "dailymail_test": "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists/dailymail_wayback_test_urls.txt",
}
URL = {
    "cnn": "https://drive.google.com/uc?export=download&id=0BwmD_VLjROrfTHk4NFg2SndKcjQ",
    "dailymail": "https://drive.google.com/uc?export=download&id=0BwmD_VLjROrfM1BxdkxVaTY2bWs",
}
PATH_LIST = {"cnn": "cnn_stories.tgz", "dailymail": "dailymail_stories.tgz"}
MD5 = {"cnn": "85ac23a1926a831e8f46a6b8eaf57263", "dailymail": "f9c5f565e8abe86c38bfa4ae8f96fd72"}
NUM_LINES = {"train": 287_227, "val": 13_368, "test": 11_490}
_EXTRACTED_FOLDERS = {"cnn": "cnn/stories", "dailymail": "dailymail/stories"}
_COPY_URL = "https://huggingface.co/datasets/cnn_dailymail/resolve/11343c3752184397d56efc19a8a7cceb68089318/data/%s"
_COPY_SHA256 = {
    "cnn": "e8fbc0027e54e0a916abd9c969eb35f708ed1467d7ef4e3b17a56739d65cb200",
    "dailymail": "ad69010002210b7c406718248ee66e65868b9f6820f163aa966369878d14147e",
}
_SPLITS = ("train", "val", "test")


def _plan(split: str) -> Plan:
    parts = tuple((_addresses(paper, split), _archive(paper), _EXTRACTED_FOLDERS[paper]) for paper in URL)
    return Plan(DATASET_NAME, split, _SPLITS, Stories(parts), StoryFiles())


def _addresses(paper: str, split: str) -> Download:
    url = SPLIT_LIST[f"{paper}_{split}"]
    return Download(url, base_name(url))


def _archive(paper: str) -> Download:
    path = PATH_LIST[paper]
    copy = Download(_COPY_URL % path, f"copies/{path}", _COPY_SHA256[paper])
    return Download(URL[paper], path, MD5[paper], copies=(copy,))


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def CNNDM(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """News articles of CNN and the Daily Mail with their highlights.

    Items are (article, highlights joined by spaces), those of CNN first. A list of addresses says which articles a
    split has; their files are named by the SHA-1 of the address.

    Args:
        root: folder of all datasets, this one in `datasets/CNNDM`; the cache when left out.
        split: "train" (287,227), "val" (13,368), "test" (11,490), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    texts("article", "highlights"),
    task="summarization",
    license="none stated; the texts belong to CNN and the Daily Mail",
    citation="@inproceedings{hermann2015teaching, author={Hermann, Karl Moritz and others}, title={Teaching Machines "
    "to Read and Comprehend}, booktitle={NeurIPS}, year={2015}}",
    homepage="https://arxiv.org/abs/1704.04368",
    description="News articles of CNN and the Daily Mail with their highlights.",
)


@register_dataset(info=_INFO)
class CNNDMItems(IndexedText):
    """`CNNDM` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
