"""Cells of every dataset over the same files in miniature, against torchtext."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from torchtext_tables import programs, without_files

from flambeau.core.hub import read_archive
from flambeau.core.testing.differential import Cell, Library, cross

SPLITS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("AG_NEWS", "AmazonReviewFull", "AmazonReviewPolarity", "DBpedia", "IMDB", "SogouNews", "YahooAnswers",
         "YelpReviewFull", "YelpReviewPolarity"), ("train", "test")
    ),
    **dict.fromkeys(("CoLA", "MRPC", "RTE", "SST2", "STSB", "WNLI", "QNLI"), ("train", "dev", "test")),
    "MRPC": ("train", "test"),
    "MNLI": ("train", "dev_matched", "dev_mismatched"),
    **dict.fromkeys(("PennTreebank", "WikiText2", "WikiText103", "UDPOS", "Multi30k"), ("train", "valid", "test")),
    **dict.fromkeys(("IWSLT2016", "IWSLT2017"), ("train", "valid", "test")),
    "CoNLL2000Chunking": ("train", "test"),
    **dict.fromkeys(("SQuAD1", "SQuAD2"), ("train", "dev")),
}  # fmt: skip
UNSPLIT = ("QQP", "EnWik9", "CC100")


def items_of(library: Library, name: str, shuffled: bool = False, **options: Any) -> list[Any]:
    """What a dataset gives over its files in miniature; rows as tuples, whether they are lists or not."""
    from flambeau.text._miniatures import write_miniature

    folder = Path(library.folder, "root", "datasets", name)
    write_miniature(name, folder)
    with _digests_of_miniature(name, folder) if library.ours else contextlib.nullcontext():
        pipe = getattr(library.datasets, name)(root=str(library.folder / "root"), **options)
        rows = list(pipe.shuffle() if shuffled else pipe)
    return [tuple(row) if isinstance(row, list | tuple) else row for row in rows]


@contextlib.contextmanager
def _digests_of_miniature(name: str, folder: Path) -> Iterator[None]:
    """Let our tables have the digests of the miniature's files; upstream is told to trust what is there."""
    module = importlib.import_module(f"flambeau.text.datasets.{name.lower()}")
    digests = {}
    for split in module._SPLITS:
        for download in module._plan(split).source.downloads:
            if download.digest:
                kind = "md5" if len(download.digest) == 32 else "sha256"
                digests[download.digest] = hashlib.new(kind, (folder / download.path).read_bytes()).hexdigest()
    tables = {"MD5": _replaced(module.MD5, digests)}
    if hasattr(module, "_EXTRACTED_FILES_MD5"):
        found = {
            member: hashlib.md5(stream.read()).hexdigest() for member, stream in read_archive(folder / module._PATH)
        }
        tables["_EXTRACTED_FILES_MD5"] = {split: found[member] for split, member in module._EXTRACTED_FILES.items()}
    with mock.patch.multiple(module, **tables):
        yield


def _replaced(table: Any, by: dict[str, str]) -> Any:
    if isinstance(table, dict):
        return {key: by.get(value, value) for key, value in table.items()}
    return by.get(table, table)


NAMES: dict[str, Any] = {"items_of": items_of}

BY_HAND = programs("""
    datasets.AG_NEWS(root=str(library.folder), split='nonsense')
    datasets.AG_NEWS(root=str(library.folder), split=('train', 'nonsense'))
    datasets.AG_NEWS(root=str(library.folder), split=3)
    datasets.AG_NEWS(root=str(library.folder), split=())
    type(datasets.AG_NEWS(root=str(library.folder), split=('train', 'test'))).__name__
    len(datasets.AG_NEWS(root=str(library.folder)))
    datasets.IWSLT2016(root=str(library.folder), language_pair=('xx', 'en'))
    datasets.IWSLT2016(root=str(library.folder), valid_set='nonsense')
    datasets.IWSLT2016(root=str(library.folder), test_set='nonsense')
    datasets.IWSLT2016(root=str(library.folder), language_pair='de-en')
    datasets.IWSLT2017(root=str(library.folder), language_pair=('xx', 'en'))
    datasets.Multi30k(root=str(library.folder), language_pair=('xx', 'en'))
    datasets.CC100(root=str(library.folder), language_code='nonsense')
    items_of(library, 'Multi30k', split='train', language_pair=('en', 'de'))
    items_of(library, 'SST2', split='dev', shuffled=True)
    sorted(datasets.DATASETS)
    sorted(datasets.URLS)
    datasets.NUM_LINES['AG_NEWS']
    datasets.MD5['SST2']
    datasets.ag_news.URL
    datasets.sst2.NUM_LINES
    datasets.udpos.DATASET_NAME
    datasets.imdb.MD5
""")


def cells() -> list[Cell]:
    """All cells of this file."""
    table = [f"items_of(library, {name!r}, split={split!r})" for name, splits in SPLITS.items() for split in splits]
    table += [f"items_of(library, {name!r})" for name in UNSPLIT]
    made = [
        *cross("datasets", {"miniature": {}}, table, names=NAMES),
        *cross("datasets", {"by hand": {}}, BY_HAND, names=NAMES),
    ]
    return without_files(made)
