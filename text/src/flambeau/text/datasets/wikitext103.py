"""WikiText103: Good articles of Wikipedia, a hundred and three million words.

References:
    Merity et al. 2016, Pointer Sentinel Mixture Models. arXiv:1609.07843.
"""

from __future__ import annotations

import sys
from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._families import packed
from flambeau.text.datasets._formats import Lines
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._split_plan import Plan, describe, stream, texts

__all__ = ["WikiText103"]

DATASET_NAME = "WikiText103"
URL = "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-v1.zip"
MD5 = "9ddaacaf6af0710eda8c456decff7832"
NUM_LINES = {"train": 1_801_350, "valid": 3_760, "test": 4_358}
_EXTRACTED_FILES = {
    "train": "wikitext-103/wiki.train.tokens",
    "test": "wikitext-103/wiki.test.tokens",
    "valid": "wikitext-103/wiki.valid.tokens",
}
_MIRRORS = ("https://wikitext.smerity.com/wikitext-103-v1.zip",)
_SPLITS = ("train", "valid", "test")


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, Lines(strip=None))


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def WikiText103(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Good articles of Wikipedia, a hundred and three million words.

    Items are a line with its end.

    Args:
        root: folder of all datasets, this one in `datasets/WikiText103`; the cache when left out.
        split: "train" (1,801,350), "valid" (3,760), "test" (4,358), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    NUM_LINES,
    texts("line"),
    task="language-modeling",
    license="CC-BY-SA-3.0",
    citation="@misc{merity2016pointer, author={Merity, Stephen and others}, title={Pointer Sentinel Mixture "
    "Models}, year={2016}, eprint={1609.07843}}",
    homepage="https://blog.salesforceairesearch.com/the-wikitext-long-term-dependency-language-modeling-dataset/",
    description="Good articles of Wikipedia, a hundred and three million words.",
)


@register_dataset(info=_INFO)
class WikiText103Items(IndexedText):
    """`WikiText103` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
