"""Multi30k: captions of pictures in English, German, French and Czech.

References:
    Elliott et al. 2016, Multi30K: Multilingual English-German Image Descriptions. arXiv:1605.00459.
    Elliott et al. 2017, Findings of the Second Shared Task on Multimodal Machine Translation. arXiv:1710.07177.
    Barrault et al. 2018, Findings of the Third Shared Task on Multimodal Machine Translation. WMT.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory, _wrap_split_argument
from flambeau.text.datasets._families import fetched
from flambeau.text.datasets._formats import Parallel
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._locations import Download
from flambeau.text.datasets._sources import Packed, PackedEach, Source, Text
from flambeau.text.datasets._split_plan import Plan, describe, stream, texts

__all__ = ["Multi30k"]

DATASET_NAME = "Multi30k"
URL = {
    "train": "https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k/training.tar.gz",
    "valid": "https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k/validation.tar.gz",
    "test": "https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k/mmt16_task1_test.tar.gz",
}
# Upstream: the table has this name, and SHA-256 in it.
MD5 = {
    "train": "20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e",
    "valid": "a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c",
    "test": "6d1ca1dba99e2c5dd54cae1226ff11c2551e6ce63527ebb072a1f70f72a5cd36",
}
NUM_LINES = {"train": 29_000, "valid": 1_014, "test": 1_000}
_PREFIX = {"train": "train", "valid": "val", "test": "test"}
_WMT = "http://www.quest.dcs.shef.ac.uk/wmt16_files_mmt"
# Where the task itself published them; its test set is another archive of the same sentences.
_WMT_SHA256 = {**MD5, "test": "0681be16a532912288a91ddd573594fbdd57c0fbb81486eff7c55247e35326c2"}

# The set's own repository has each language's sentences in a file of its own, and the test sets of later years.
_RAW_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/%s.gz"
_RAW = {
    "train": "train",
    "valid": "val",
    "test": "test_2016_flickr",
    "test_2017_flickr": "test_2017_flickr",
    "test_2017_mscoco": "test_2017_mscoco",
    "test_2018_flickr": "test_2018_flickr",
}
_RAW_LANGUAGES = {
    "test_2017_flickr": ("de", "en", "fr"),
    "test_2017_mscoco": ("de", "en", "fr"),
}
_LANGUAGES = ("cs", "de", "en", "fr")
_SPLITS = ("train", "valid", "test")
_LATER = ("test_2017_flickr", "test_2017_mscoco", "test_2018_flickr")


def _plan(split: str, language_pair: Sequence[str] = ("de", "en")) -> Plan:
    pair = _checked(split, language_pair)
    source: Source
    if split in _SPLITS and set(pair) == {"de", "en"}:
        members = tuple(Text(name, name) for name in (f"{_PREFIX[split]}.{language}" for language in pair))
        source = Packed(_archive(split), members)
    else:
        source = PackedEach(tuple(_raw(f"{_RAW[split]}.{language}") for language in pair))
    return Plan(DATASET_NAME, split, (*_SPLITS, *_LATER), source, Parallel(strip="newline"))


def _archive(split: str) -> Download:
    download = fetched(sys.modules[__name__], split)
    copy = Download(f"{_WMT}/{download.path}", f"wmt16/{download.path}", _WMT_SHA256[split])
    return Download(download.url, download.path, download.digest, copies=(copy,))


def _raw(name: str) -> Packed:
    return Packed(Download(_RAW_URL % name, f"task1/raw/{name}.gz"), (Text(f"task1/raw/{name}", name),))


def _checked(split: str, language_pair: Sequence[str]) -> tuple[str, str]:
    languages = _RAW_LANGUAGES.get(split, _LANGUAGES)
    # Upstream: assertions.
    if len(language_pair) != 2:
        raise AssertionError(f"language_pair holds a source and a target language, got {language_pair!r}.")
    source, target = language_pair
    if source == target or not {source, target} <= set(languages):
        raise AssertionError(
            f"language_pair={tuple(language_pair)!r}: split {split!r} of Multi30k has {', '.join(languages)}; name two."
        )
    return source, target


@_create_dataset_directory(dataset_name=DATASET_NAME)
@_wrap_split_argument(_SPLITS, _LATER)
def Multi30k(root: str, split: str | tuple[str, ...], language_pair: Sequence[str] = ("de", "en")) -> IterDataPipe[Any]:
    """Captions of pictures and their translations.

    Items are (source sentence, target sentence) without ends of lines. German and English come from the archives of
    WMT 2016, with checksums; every other pair, and the later test sets, from the set's own repository, which states
    none.

    Args:
        root: folder of all datasets, this one in `datasets/Multi30k`; the cache when left out.
        split: "train" (29,000), "valid" (1,014), "test" (1,000, of 2016), or a tuple of them; all three when left out.
            Also "test_2017_flickr" (1,000), "test_2017_mscoco" (461) and "test_2018_flickr" (1,071).
        language_pair: two of "cs", "de", "en" and "fr"; the test sets of 2017 have no Czech.

    Returns:
        A pipeline, or a tuple of them where `split` is no string; files are fetched when it is first read.

    Raises:
        AssertionError: a pair that does not exist.
    """
    return stream(_plan(str(split), language_pair), root)


_INFO = describe(
    _plan,
    (*_SPLITS, *_LATER),
    {**NUM_LINES, "test_2017_flickr": 1_000, "test_2017_mscoco": 461, "test_2018_flickr": 1_071},
    texts("source", "target"),
    task="translation",
    license="CC-BY-NC-SA-4.0",
    citation="@inproceedings{elliott2016multi30k, author={Elliott, Desmond and others}, title={Multi30K: Multilingual "
    "English-German Image Descriptions}, booktitle={VL}, year={2016}}",
    homepage="https://www.statmt.org/wmt16/multimodal-task.html#task1",
    description="Captions of pictures in English, German, French and Czech.",
)


@register_dataset(info=_INFO)
class Multi30kItems(IndexedText):
    """`Multi30k` by index; arguments as for `IndexedText` and `Multi30k`."""

    splits = (*_SPLITS, *_LATER)
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
