"""CC100: text of the web in 116 languages and scripts.

References:
    Conneau et al. 2020, Unsupervised Cross-lingual Representation Learning at Scale. arXiv:1911.02116.
    Wenzek et al. 2020, CCNet: Extracting High Quality Monolingual Datasets from Web Crawl Data. arXiv:1911.00359.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flambeau.core.datasets import register_dataset
from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.text.data.datasets_utils import _create_dataset_directory
from flambeau.text.datasets._families import base_name
from flambeau.text.datasets._formats import Lines
from flambeau.text.datasets._indexed import IndexedText
from flambeau.text.datasets._locations import Download
from flambeau.text.datasets._sources import Packed, Text
from flambeau.text.datasets._split_plan import Plan, describe, stream, texts

__all__ = ["CC100"]

DATASET_NAME = "CC100"
URL = "http://data.statmt.org/cc-100/%s.txt.xz"
MD5 = None
NUM_LINES = None
VALID_CODES = (
    "am", "ar", "as", "az", "be", "bg", "bn", "bn_rom", "br", "bs", "ca", "cs", "cy", "da", "de", "el", "en",
    "eo", "es", "et", "eu", "fa", "ff", "fi", "fr", "fy", "ga", "gd", "gl", "gn", "gu", "ha", "he", "hi",
    "hi_rom", "hr", "ht", "hu", "hy", "id", "ig", "is", "it", "ja", "jv", "ka", "kk", "km", "kn", "ko", "ku",
    "ky", "la", "lg", "li", "ln", "lo", "lt", "lv", "mg", "mk", "ml", "mn", "mr", "ms", "my", "my_zaw", "ne",
    "nl", "no", "ns", "om", "or", "pa", "pl", "ps", "pt", "qu", "rm", "ro", "ru", "sa", "sc", "sd", "si", "sk",
    "sl", "so", "sq", "sr", "ss", "su", "sv", "sw", "ta", "ta_rom", "te", "te_rom", "th", "tl", "tn", "tr", "ug",
    "uk", "ur", "ur_rom", "uz", "vi", "wo", "xh", "yi", "yo", "zh-Hans", "zh-Hant", "zu",
)  # fmt: skip
_SPLITS = ("train",)


def _plan(split: str = "train", language_code: str = "en") -> Plan:
    if language_code not in VALID_CODES:
        raise ValueError(f"CC100 has no language {language_code!r}; it has {', '.join(VALID_CODES)}.")
    url = URL % language_code
    name = base_name(url)
    text = name.removesuffix(".xz")
    source = Packed(Download(url, name, MD5), (Text(text, text),))
    return Plan(DATASET_NAME, split, _SPLITS, source, Lines(tags=(language_code,)))


@_create_dataset_directory(dataset_name=DATASET_NAME)
def CC100(root: str, language_code: str = "en") -> IterDataPipe[Any]:
    """Text of the web in one of 116 languages and scripts.

    Items are (language code, line); an empty line stands between documents. Its owner states no checksums.

    Args:
        root: folder of all datasets, this one in `datasets/CC100`; the cache when left out.
        language_code: such as "en", "bn_rom" or "zh-Hans"; `VALID_CODES` lists all.

    Returns:
        A pipeline; the file is fetched when it is first read.

    Raises:
        ValueError: a language it does not have.
    """
    return stream(_plan("train", language_code), root)


_INFO = describe(
    _plan,
    _SPLITS,
    None,
    texts("language", "line"),
    task="language-modeling",
    license="Common Crawl terms of use",
    citation="@inproceedings{conneau2020unsupervised, author={Conneau, Alexis and others}, title={Unsupervised "
    "Cross-lingual Representation Learning at Scale}, booktitle={ACL}, year={2020}}",
    homepage="https://data.statmt.org/cc-100/",
    description="Text of the web in 116 languages and scripts.",
)


@register_dataset(info=_INFO)
class CC100Items(IndexedText):
    """`CC100` by index; arguments as for `IndexedText`, and `language_code` as for `CC100`."""

    splits = _SPLITS
    plan = staticmethod(_plan)

    def __init__(
        self,
        root: str | Path | None = None,
        split: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        *,
        language_code: str = "en",
        named: bool = False,
        download: bool = True,
        from_dir: str | Path | None = None,
        mirror: str | Sequence[str] = (),
    ) -> None:
        self._open(root, split, transform, named, download, from_dir, mirror, {"language_code": language_code})
