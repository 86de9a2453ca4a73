"""CoLA: English sentences from the linguistics literature, acceptable or not.

References:
    Warstadt, Singh and Bowman 2019, Neural Network Acceptability Judgments. arXiv:1805.12471.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._families import packed
from flambeau.text.datasets._formats import Rows
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._split_plan import Plan, describe, label, stream, texts

__all__ = ["CoLA"]

DATASET_NAME = "CoLA"
URL = "https://nyu-mll.github.io/CoLA/cola_public_1.1.zip"
MD5 = "9f6d88c3558ec424cd9d66ea03589aba"
NUM_LINES = {"train": 8_551, "dev": 527, "test": 516}
_PATH = "cola_public_1.1.zip"
_EXTRACTED_FILES = {
    "train": "cola_public/raw/in_domain_train.tsv",
    "dev": "cola_public/raw/in_domain_dev.tsv",
    "test": "cola_public/raw/out_of_domain_dev.tsv",
}
_SPLITS = ("train", "dev", "test")
_COLUMNS = 4


def _judged(row: list[str]) -> tuple[str, int, str] | None:
    return (row[0], int(row[1]), row[3]) if len(row) == _COLUMNS else None


def _plan(split: str, skip_header: bool = True) -> Plan:
    return packed(
        sys.modules[__name__], split, Rows(_judged, delimiter="\t", quoted=False, skip=1 if skip_header else 0)
    )


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def CoLA(root: str, split: str | tuple[str, ...]) -> IterDataPipe[Any]:
    """English sentences from the linguistics literature, acceptable or not.

    Items are (source, 0 unacceptable or 1 acceptable, sentence). The test split is the published out-of-domain
    development set. Upstream: the first line of each file is taken for a header although it is an example, so that
    one is lost; `get_dataset("text/cola", skip_header=False)` has all.

    Args:
        root: folder of all datasets, this one in `datasets/CoLA`; the cache when left out.
        split: "train" (8,551 lines), "dev" (527), "test" (516), or a tuple of them; all when left out.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.
    """
    return stream(_plan(str(split)), root)


_INFO = describe(
    _plan,
    _SPLITS,
    {split: lines - 1 for split, lines in NUM_LINES.items()},
    (*texts("source"), label(), *texts("sentence")),
    task="text-classification",
    license="none stated; cite the paper",
    citation="@article{warstadt2019neural, author={Warstadt, Alex and Singh, Amanpreet and Bowman, Samuel R.}, "
    "title={Neural Network Acceptability Judgments}, journal={TACL}, year={2019}}",
    homepage="https://nyu-mll.github.io/CoLA/",
    description="English sentences from the linguistics literature, acceptable or not; part of GLUE.",
)


@register_dataset(info=_INFO)
class CoLAItems(IndexedText):
    """`CoLA` by index; arguments as for `IndexedText`, and `skip_header`: False keeps the first line of each file."""

    splits = _SPLITS
    plan = staticmethod(_plan)

    def __init__(
        self,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        *,
        skip_header: bool = True,
        named: bool = False,
        download: bool = True,
        from_dir: str | Path | None = None,
        mirror: str | Sequence[str] = (),
    ) -> None:
        self._open(root, split, transform, named, download, from_dir, mirror, {"skip_header": skip_header})
