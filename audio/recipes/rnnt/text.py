"""Transcripts as SentencePiece tokens."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from flambeau.core.files import write_atomic


def train_pieces(
    texts: Iterable[str], path: Path, *, count: int, kind: Literal["bpe", "unigram"], fixed: bool = True
) -> None:
    """Find a vocabulary of pieces and write its model. The same texts give the same file.

    Args:
        texts: transcripts, as `spelled` gives them.
        path: the file to write.
        count: pieces, the four special ones counted.
        kind: the algorithm.
        fixed: whether there have to be as many. False takes fewer where the texts do not have them ("unigram" alone).

    Raises:
        ValueError: the texts do not have so many pieces.
    """
    import sentencepiece

    content = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=content,
            vocab_size=count,
            model_type=kind,
            hard_vocab_limit=fixed,
            character_coverage=1.0,
            bos_id=0,
            pad_id=1,
            eos_id=2,
            unk_id=3,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(
            f"SentencePiece finds no {count} pieces in these transcripts ({error}). Train on more of them, "
            "or use --tiny."
        ) from error
    write_atomic(path, content.getvalue())


def spelled(transcript: str) -> str:
    """A transcript as the network writes it: LibriSpeech's are in capitals, the bundles' text is not."""
    return " ".join(transcript.lower().split())


class Tokenizer:
    """Text -> tokens.

    Args:
        path: file of `train_pieces`.
    """

    def __init__(self, path: Path) -> None:
        import sentencepiece

        self._processor = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def __len__(self) -> int:
        return len(self._processor)

    def __call__(self, transcript: str) -> list[int]:
        """Tokens of a transcript."""
        tokens: list[int] = self._processor.encode(spelled(transcript))
        return tokens
