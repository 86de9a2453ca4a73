"""Cells of vocabularies, vectors, transforms, functionals and what `data` and `utils` have, against torchtext."""

from __future__ import annotations

import collections
import gzip
import io
import random
import tarfile
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import torch
from torchtext_tables import without_files
from torchtext_tokenizers import VOCABULARIES

from flambeau.core.testing.differential import Cell, Library, cross, read_table


def words_file(library: Library, text: str, name: str = "words.txt") -> str:
    """Write a text below the run's folder; returns its path."""
    path = Path(library.folder, name)
    path.write_text(text, encoding="utf-8")
    return str(path)


def archive(library: Library, kind: str, damaged: bool = False) -> str:
    """An archive of two files of a kind; returns its path."""
    path = Path(library.folder, f"archive{kind}")
    members = {"a.txt": b"first", "inner/b.txt": b"second"}
    if kind == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            for name, data in members.items():
                packed.writestr(zipfile.ZipInfo(name), data)
    elif kind == ".gz":
        path.write_bytes(gzip.compress(b"first", mtime=0))
    else:
        with tarfile.open(path, "w:gz" if kind in (".tar.gz", ".tgz") else "w") as tar:
            for name, data in members.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    if damaged:
        path.write_bytes(path.read_bytes()[:30])
    return str(path)


TABLES = read_table(Path(__file__).with_suffix(".txt"))

NAMES: dict[str, Any] = {
    "torch": torch,
    "OrderedDict": OrderedDict,
    "Counter": Counter,
    "collections": collections,
    "random": random,
    "io": io,
    "Path": Path,
    "V": str(VOCABULARIES),
    "words_file": words_file,
    "archive": archive,
}

VOCABS = {
    "abc": {"v": "vocab.vocab(OrderedDict([('a', 3), ('b', 2), ('c', 1)]))"},
    "with unknown": {
        "v": "w = vocab.vocab(OrderedDict([('a', 3)]), specials=['<unk>', '<pad>']); w.set_default_index(0); w"
    },
    "of none": {"v": "vocab.vocab(OrderedDict())"},
    "odd tokens": {"v": "vocab.vocab(OrderedDict([('', 1), ('é', 1), ('日本', 1), (' ', 1), ('😀', 1), ('a\\n', 1)]))"},
}
OF_VOCAB = TABLES["of vocab"]

FACTORIES = TABLES["factories"]

VECTORS = {
    "text": {"path": "words_file(library, 'the 1 2 3\\nof 4 5 6\\nThe 7 8 9\\n', 'small.txt')"},
    "with header": {"path": "words_file(library, '3 3\\nthe 1 2 3\\nof 4 5 6\\nThe 7 8 9\\n', 'small.txt')"},
    "repeated": {"path": "words_file(library, 'the 1 2 3\\nof 4 5 6\\nthe 7 8 9\\n', 'small.txt')"},
    "ragged": {"path": "words_file(library, 'the 1 2 3\\nof 4 5\\n', 'small.txt')"},
    "not numbers": {"path": "words_file(library, 'the 1 2 x\\n', 'small.txt')"},
    "odd words": {"path": "words_file(library, 'é 1 2 3\\n日本 3 4 5\\n😀 5e-1 -6.25 0\\n', 'small.txt')"},
    "empty": {"path": "words_file(library, '', 'small.txt')"},
}
OF_VECTORS = TABLES["of vectors"]
MORE_VECTORS = TABLES["more vectors"]

INPUTS = {
    "ids": {"x": "[1, 2, 3, 4]"},
    "batch": {"x": "[[1, 2, 3], [4], []]"},
    "tokens": {"x": "['a', 'b', 'c']"},
    "batch of tokens": {"x": "[['a', 'b'], ['c']]"},
    "digits": {"x": "['1', '22', '-3']"},
    "batch of digits": {"x": "[['1'], ['2', '3']]"},
    "empty": {"x": "[]"},
    "batch of empty": {"x": "[[], []]"},
    "tuple": {"x": "(1, 2)"},
    "one": {"x": "3"},
    "text": {"x": "'abc'"},
    "nothing": {"x": "None"},
    "floats": {"x": "[1.5, 2.5]"},
    "mixed": {"x": "[1, 'a']"},
    "deep": {"x": "[[[1]]]"},
}
OF_INPUTS = TABLES["of inputs"]
TRANSFORMS = TABLES["transforms"]

DATA = TABLES["data"]

UTILS = TABLES["utils"]


def cells() -> list[Cell]:
    """All cells of this file."""
    made = [
        *cross("vocab", VOCABS, OF_VOCAB, names=NAMES),
        *cross("vocab", {"factories": {}}, FACTORIES, names=NAMES),
        *cross("vectors", VECTORS, OF_VECTORS, names=NAMES),
        *cross("vectors", {"by hand": {}}, MORE_VECTORS, names=NAMES),
        *cross("transforms", INPUTS, OF_INPUTS, names=NAMES),
        *cross("transforms", {"by hand": {}}, TRANSFORMS, names=NAMES),
        *cross("data", {"by hand": {}}, DATA, names=NAMES),
        *cross("utils", {"by hand": {}}, UTILS, names=NAMES),
    ]
    return without_files(made)
