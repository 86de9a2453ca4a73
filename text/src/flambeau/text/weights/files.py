"""Vocabulary files: those of published models and one that is part of the package, and what is known about them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["BUCKET", "FILES", "HUB", "PublishedFile", "asset"]

BUCKET = "https://download.pytorch.org/models/text/"
HUB = "https://huggingface.co/"


class PublishedFile(NamedTuple):
    """Where a file is, and how it is known to be whole.

    Attributes:
        url: its address.
        sha256: hexadecimal digest, None where none is on record.
        size: bytes, None where that is not on record.
    """

    url: str
    sha256: str | None = None
    size: int | None = None


FILES = {
    "gpt2_bpe_encoder.json": PublishedFile(
        BUCKET + "gpt2_bpe_encoder.json", "5f8d87305d555f4863aa409c0ba3d233ab42c1493f61514d14d41921957e744e", 1042302
    ),
    "gpt2_bpe_vocab.bpe": PublishedFile(
        BUCKET + "gpt2_bpe_vocab.bpe", "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5", 456318
    ),
    "roberta.vocab.pt": PublishedFile(BUCKET + "roberta.vocab.pt"),
    "xlmr.vocab.pt": PublishedFile(BUCKET + "xlmr.vocab.pt"),
    "xlmr.sentencepiece.bpe.model": PublishedFile(BUCKET + "xlmr.sentencepiece.bpe.model"),
    "t5_tokenizer_base.model": PublishedFile(
        BUCKET + "t5_tokenizer_base.model", "d60acb128cf7b7f2536e8f38a5b18a05535c9e14c7a355904270e15b0945ea86", 791656
    ),
    "bert_uncased_vocab.txt": PublishedFile(
        HUB + "google-bert/bert-base-uncased/resolve/main/vocab.txt",
        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        231508,
    ),
    "bert_cased_vocab.txt": PublishedFile(
        HUB + "google-bert/bert-base-cased/resolve/main/vocab.txt",
        "eeaa9875b23b04b4c54ef759d03db9d1ba1554838f8fb26c5d96fa551df93d02",
        213450,
    ),
    # Part of the package: 8,000 pieces of 22 languages, by recipes/manual_page_pieces.py.
    "manual_pages_8k.model": PublishedFile(
        "package:flambeau.text/weights/embedded/manual-pages-8k-1b8f015b.model",
        "1b8f015b88d2114fc7909eb211cf50ecff526443e141fddcd590585c4946f706",
        367303,
    ),
}


def asset(source: str | os.PathLike[str]) -> Path:
    """A vocabulary file on this machine.

    Args:
        source: a name in `FILES`, a URL (fetched once; verified where its digest is on record), or a path.

    Raises:
        FileNotFoundError: a path without a file.
        DownloadError: it could not be fetched, or not verified.
    """
    from flambeau.core.hub import fetch

    text = os.fspath(source)
    known = FILES.get(text) or next((file for file in FILES.values() if file.url == text), None)
    if known is not None:
        return fetch(known.url, sha256=known.sha256, size=known.size)
    if "://" in text:
        return fetch(text)
    if not Path(text).is_file():
        raise FileNotFoundError(f"{text!r} is no file; give a path, a URL, or one of {', '.join(FILES)}.")
    return Path(text)
