"""IWSLT2017: talks in five languages, translated from each into each.

References:
    Cettolo et al. 2017, Overview of the IWSLT 2017 Evaluation Campaign. https://aclanthology.org/2017.iwslt-1.1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._iwslt import checked_pair, iwslt_plan
from flambeau.text.datasets._locations import Download
from flambeau.text.datasets._split_plan import Plan, describe, stream, texts

__all__ = ["IWSLT2017"]

DATASET_NAME = "IWSLT2017"
URL = (
    "https://fbk.sharepoint.com/sites/MTUnit/_layouts/15/download.aspx?SourceUrl=%2Fsites%2FMTUnit%2F"
    "Shared%20Documents%2Fwebsites%2FWIT3%2Dlibrary%2F2017%2D01%2Dtrnmted%2Etgz"
)
MD5 = "aca701032b1c4411afc4d9fa367796ba"
_PATH = "2017-01-trnmted.tgz"
_INNER = "texts/DeEnItNlRo/DeEnItNlRo/DeEnItNlRo-DeEnItNlRo.tgz"
# The inner archive on its own.
_INNER_URL = (
    "https://huggingface.co/datasets/iwslt2017/resolve/ebd7c60d9800c2a1be010a227e5f0a2363730f7a/data/2017-01-trnmted/"
    f"{_INNER}"
)
_INNER_SHA256 = "cebb3839b7580f8e4eecf66d75424caa29b9410a9a491a732b2d343626ee0243"
_HELD_OUT = {
    "dev2010": {
        ("en", "nl"): 1_003,
        ("de", "en"): 888,
        ("en", "it"): 929,
        ("en", "ro"): 914,
        ("de", "ro"): 912,
        ("nl", "ro"): 913,
        ("it", "ro"): 914,
        ("de", "nl"): 1_001,
        ("de", "it"): 923,
        ("it", "nl"): 1_001,
    },
    "tst2010": {
        ("en", "nl"): 1_777,
        ("de", "en"): 1_568,
        ("en", "it"): 1_566,
        ("en", "ro"): 1_678,
        ("de", "ro"): 1_677,
        ("nl", "ro"): 1_680,
        ("it", "ro"): 1_643,
        ("de", "nl"): 1_779,
        ("de", "it"): 1_567,
        ("it", "nl"): 1_669,
    },
}
NUM_LINES = {
    "train": {
        "train": {
            ("en", "nl"): 237_240,
            ("de", "en"): 206_112,
            ("en", "it"): 231_619,
            ("en", "ro"): 220_538,
            ("de", "ro"): 201_455,
            ("nl", "ro"): 206_920,
            ("it", "ro"): 217_551,
            ("de", "nl"): 213_628,
            ("de", "it"): 205_465,
            ("it", "nl"): 233_415,
        },
    },
    "valid": _HELD_OUT,
    "test": _HELD_OUT,
}
SUPPORTED_DATASETS = {
    "valid_test": ["dev2010", "tst2010"],
    "language_pair": {
        "en": ["nl", "de", "it", "ro"],
        "ro": ["de", "en", "nl", "it"],
        "de": ["ro", "en", "nl", "it"],
        "it": ["en", "nl", "de", "ro"],
        "nl": ["de", "en", "it", "ro"],
    },
    "year": 17,
}
_SPLITS = ("train", "valid", "test")


def _plan(split: str, language_pair: Sequence[str] = ("de", "en")) -> Plan:
    here = sys.modules[__name__]
    inner = f"{_PATH.removesuffix('.tgz')}/{_INNER}"
    copy = Download(_INNER_URL, inner, _INNER_SHA256)
    pair = checked_pair(here, language_pair)
    return iwslt_plan(here, split, pair, ("dev2010", "tst2010"), inner, inner_copy=copy)


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def IWSLT2017(
    root: str = ".data",
    split: str | tuple[str, ...] = ("train", "valid", "test"),
    language_pair: Sequence[str] = ("de", "en"),
) -> IterDataPipe[Any]:
    """Transcripts of talks with their translation, between any two of Dutch, English, German, Italian and Romanian.

    Items are (source sentence, target sentence) with the end of the line kept. The sets for validation ("dev2010") and
    test ("tst2010") are XML, for which defusedxml has to be installed (`flambeau-text[xml]`).

    Args:
        root: folder of all datasets, this one in `datasets/IWSLT2017`; the cache when left out.
        split: "train" (206,112 from German to English), "valid" (888), "test" (1,568), or a tuple of them; all when
            left out.
        language_pair: source and target, as in `SUPPORTED_DATASETS`.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.

    Raises:
        ValueError: a pair that does not exist.
    """
    return stream(_plan(str(split), language_pair), root)


_INFO = describe(
    _plan,
    _SPLITS,
    {"train": 206_112, "valid": 888, "test": 1_568},
    texts("source", "target"),
    task="translation",
    license="CC-BY-NC-ND-4.0",
    citation="@inproceedings{cettolo2017overview, author={Cettolo, Mauro and others}, title={Overview of the IWSLT "
    "2017 Evaluation Campaign}, booktitle={IWSLT}, year={2017}}",
    homepage="https://wit3.fbk.eu/2017-01",
    description="Transcripts of talks in five languages with their translation.",
)


@register_dataset(info=_INFO)
class IWSLT2017Items(IndexedText):
    """`IWSLT2017` by index; arguments as for `IndexedText` and `IWSLT2017`."""

    splits = _SPLITS
    plan = staticmethod(_plan)

    def __init__(
        self,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        *,
        language_pair: Sequence[str] = ("de", "en"),
        named: bool = False,
        download: bool = True,
        from_dir: str | Path | None = None,
        mirror: str | Sequence[str] = (),
    ) -> None:
        options = {"language_pair": language_pair}
        self._open(root, split, transform, named, download, from_dir, mirror, options)
