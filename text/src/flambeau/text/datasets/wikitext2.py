"""WikiText2: Good articles of Wikipedia, two million words.

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

__all__ = ["WikiText2"]

DATASET_NAME = "WikiText2"
URL = "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-2-v1.zip"
MD5 = "542ccefacc6c27f945fb54453812b3cd"
NUM_LINES = {"train": 36_718, "valid": 3_760, "test": 4_358}
_EXTRACTED_FILES = {
    "train": "wikitext-2/wiki.train.tokens",
    "test": "wikitext-2/wiki.test.tokens",
    "valid": "wikitext-2/wiki.valid.tokens",
}
_MIRRORS = ("https://wikitext.smerity.com/wikitext-2-v1.zip",)
_SPLITS = ("train", "valid", "test")


def _plan(split: str) -> Plan:
    return packed(sys.modules[__name__], split, Lines(strip=None))


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def WikiText2(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """Good articles of Wikipedia, two million words.

    Items are a line with its end.

    Args:
        root: folder of all datasets, this one in `datasets/WikiText2`; the cache when left out.
        split: "train" (36,718), "valid" (3,760), "test" (4,358), or a tuple of them; all when left out.

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
    description="Good articles of Wikipedia, two million words.",
)


@register_dataset(info=_INFO)
class WikiText2Items(IndexedText):
    """`WikiText2` by index; see `IndexedText`."""

    splits = _SPLITS
    plan = staticmethod(_plan)
