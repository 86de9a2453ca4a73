"""Plans of the two IWSLT sets: which files a language pair has, and how they are cleaned.

Their archives hold an archive with, for each language, a text for training with lines of tags in between, and XML files
for validation and test. What is cached are plain texts, a sentence a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import IO

from flambeau.text.data.datasets_utils import _generate_iwslt_files_for_lang_and_split, segments, untagged
from flambeau.text.datasets._families import fetched
from flambeau.text.datasets._formats import Parallel
from flambeau.text.datasets._locations import Download
from flambeau.text.datasets._sources import Nested, Text
from flambeau.text.datasets._split_plan import Plan


def checked_pair(tables: ModuleType, language_pair: Sequence[str]) -> tuple[str, str]:
    """Source and target language.

    Raises:
        ValueError: neither list nor tuple, or a language or a pair that the set does not have.
        AssertionError: not two languages (upstream's class).
    """
    if not isinstance(language_pair, list | tuple):
        raise ValueError(f"language_pair has to be a list or tuple, got {type(language_pair).__name__}.")
    if len(language_pair) != 2:
        raise AssertionError(f"language_pair holds a source and a target language, got {language_pair!r}.")
    source, target = language_pair
    supported = tables.SUPPORTED_DATASETS["language_pair"]
    if source not in supported:
        raise ValueError(f"{tables.DATASET_NAME} has no source language {source!r}; it has {', '.join(supported)}.")
    if target not in supported[source]:
        raise ValueError(
            f"{tables.DATASET_NAME} does not translate {source!r} into {target!r}, but into "
            f"{', '.join(supported[source])}."
        )
    return source, target


def checked_set(tables: ModuleType, pair: tuple[str, str], name: str, argument: str) -> str:
    """A validation or test set.

    Raises:
        ValueError: the pair has no such set.
    """
    absent = tables.SET_NOT_EXISTS[pair]
    known = [each for each in tables.SUPPORTED_DATASETS["valid_test"] if each not in absent]
    if name not in known:
        raise ValueError(f"{argument}={name!r} does not exist for {'-'.join(pair)}; there are {', '.join(known)}.")
    return name


def iwslt_plan(
    tables: ModuleType,
    split: str,
    pair: tuple[str, str],
    held_out: tuple[str, str],
    inner: str,
    *,
    inner_copy: Download | None = None,
) -> Plan:
    """One split of a language pair.

    Args:
        tables: the dataset's module.
        split: "train", "valid" or "test".
        pair: source and target language.
        held_out: names of the validation and the test set.
        inner: the inner archive, below the dataset's folder; the texts go into a folder of its name.
        inner_copy: where it is published on its own.
    """
    clean, raw = _generate_iwslt_files_for_lang_and_split(tables.SUPPORTED_DATASETS["year"], *pair, *held_out)
    folder = inner.removesuffix(".tgz")
    members = tuple(Text(f"{folder}/{clean[language][split]}", raw[language][split]) for language in pair)
    source = Nested(fetched(tables, split), inner, members, write_clean, inner_copy)
    return Plan(tables.DATASET_NAME, split, tables._SPLITS, source, Parallel())


def write_clean(file: IO[bytes], name: str, stream: IO[bytes]) -> None:
    """Write the sentences of a file in the archive, a line each."""
    lines: Iterable[str]
    lines = segments(stream.read()) if name.endswith(".xml") else untagged(stream)
    file.writelines(f"{line}\n".encode() for line in lines)
