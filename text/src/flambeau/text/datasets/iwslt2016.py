"""IWSLT2016: talks in five languages, translated.

References:
    Cettolo et al. 2016, The IWSLT 2016 Evaluation Campaign. https://wit3.fbk.eu/2016-01.
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
from flambeau.text.datasets._iwslt import checked_pair, checked_set, iwslt_plan
from flambeau.text.datasets._split_plan import Plan, describe, stream, texts

__all__ = ["IWSLT2016"]

DATASET_NAME = "IWSLT2016"
URL = "https://drive.google.com/uc?id=1l5y6Giag9aRPwGtuZHswh3w5v3qEz8D8"
MD5 = "c393ed3fc2a1b0f004b3331043f615ae"
_PATH = "2016-01.tgz"
_HELD_OUT = {
    "dev2010": {("ar", "en"): 887, ("de", "en"): 887, ("en", "fr"): 887, ("cs", "en"): 480},
    "tst2010": {("ar", "en"): 1_569, ("de", "en"): 1_565, ("en", "fr"): 1_664, ("cs", "en"): 1_511},
    "tst2011": {("ar", "en"): 1_199, ("de", "en"): 1_433, ("en", "fr"): 818, ("cs", "en"): 1_013},
    "tst2012": {("ar", "en"): 1_702, ("de", "en"): 1_700, ("en", "fr"): 1_124, ("cs", "en"): 1_385},
    "tst2013": {("ar", "en"): 1_169, ("de", "en"): 993, ("en", "fr"): 1_026, ("cs", "en"): 1_327},
    "tst2014": {("ar", "en"): 1_107, ("de", "en"): 1_305, ("en", "fr"): 1_305},
}
NUM_LINES = {
    "train": {
        "train": {("ar", "en"): 224_126, ("de", "en"): 196_884, ("en", "fr"): 220_400, ("cs", "en"): 114_390},
    },
    "valid": _HELD_OUT,
    "test": _HELD_OUT,
}
SUPPORTED_DATASETS = {
    "valid_test": ["dev2010", "tst2010", "tst2011", "tst2012", "tst2013", "tst2014"],
    "language_pair": {"en": ["ar", "de", "fr", "cs"], "ar": ["en"], "fr": ["en"], "de": ["en"], "cs": ["en"]},
    "year": 16,
}
SET_NOT_EXISTS = {
    ("en", "ar"): [],
    ("en", "de"): [],
    ("en", "fr"): [],
    ("en", "cs"): ["tst2014"],
    ("ar", "en"): [],
    ("fr", "en"): [],
    ("de", "en"): [],
    ("cs", "en"): ["tst2014"],
}
_SPLITS = ("train", "valid", "test")


def _plan(
    split: str, language_pair: Sequence[str] = ("de", "en"), valid_set: str = "tst2013", test_set: str = "tst2014"
) -> Plan:
    here = sys.modules[__name__]
    pair = checked_pair(here, language_pair)
    held_out = (checked_set(here, pair, valid_set, "valid_set"), checked_set(here, pair, test_set, "test_set"))
    source, target = pair
    inner = f"{_PATH.removesuffix('.tgz')}/texts/{source}/{target}/{source}-{target}.tgz"
    return iwslt_plan(here, split, pair, held_out, inner)


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS)
def IWSLT2016(
    root: str = ".data",
    split: str | tuple[str, ...] = ("train", "valid", "test"),
    language_pair: Sequence[str] = ("de", "en"),
    valid_set: str = "tst2013",
    test_set: str = "tst2014",
) -> IterDataPipe[Any]:
    """Transcripts of talks with their translation, between English and Arabic, Czech, French or German.

    Items are (source sentence, target sentence) with the end of the line kept. The sets for validation and test are
    XML, for which defusedxml has to be installed (`flambeau-text[xml]`).

    Args:
        root: folder of all datasets, this one in `datasets/IWSLT2016`; the cache when left out.
        split: "train" (196,884 from German to English), "valid", "test", or a tuple of them; all when left out.
        language_pair: source and target, as in `SUPPORTED_DATASETS`.
        valid_set: "dev2010", "tst2010", "tst2011", "tst2012", "tst2013" or "tst2014".
        test_set: the same; Czech has no "tst2014".

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.

    Raises:
        ValueError: a pair or a set that does not exist.
    """
    return stream(_plan(str(split), language_pair, valid_set, test_set), root)


_INFO = describe(
    _plan,
    _SPLITS,
    {"train": 196_884, "valid": 993, "test": 1_305},
    texts("source", "target"),
    task="translation",
    license="CC-BY-NC-ND-4.0",
    citation="@inproceedings{cettolo2016iwslt, author={Cettolo, Mauro and others}, title={The IWSLT 2016 Evaluation "
    "Campaign}, booktitle={IWSLT}, year={2016}}",
    homepage="https://wit3.fbk.eu/2016-01",
    description="Transcripts of talks in five languages with their translation.",
)


@register_dataset(info=_INFO)
class IWSLT2016Items(IndexedText):
    """`IWSLT2016` by index; arguments as for `IndexedText` and `IWSLT2016`."""

    splits = _SPLITS
    plan = staticmethod(_plan)

    def __init__(
        self,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        *,
        language_pair: Sequence[str] = ("de", "en"),
        valid_set: str = "tst2013",
        test_set: str = "tst2014",
        named: bool = False,
        download: bool = True,
        from_dir: str | Path | None = None,
        mirror: str | Sequence[str] = (),
    ) -> None:
        options = {"language_pair": language_pair, "valid_set": valid_set, "test_set": test_set}
        self._open(root, split, transform, named, download, from_dir, mirror, options)
