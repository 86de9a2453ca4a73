"""Train the package's small vocabulary: `python text/recipes/manual_page_pieces.py --packages P --out FOLDER`.

The text is that of Debian's manual pages (`manual_pages.py` tells where the packages are from): of each of the
22 languages about as many characters of the training paragraphs, those of the smallest digests. SentencePiece (Kudo and
Richardson 2018, arXiv:1808.06226) finds 8,000 pieces in it by its unigram model; what has no piece is spelled in bytes.

The run is deterministic and takes a minute. It writes `manual-pages-8k-<hash>.model`, and prints its digest, and how
many characters of the held-out samples a piece holds on average.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
from pathlib import Path

import sentencepiece

sys.path.insert(0, str(Path(__file__).parent))
from manual_pages import corpus, samples

PIECES = 8_000
CHARACTERS = 250_000  # of each language


def chosen(texts: list[str]) -> list[str]:
    """Paragraphs of about so many characters, those of the smallest digests."""
    first, total = [], 0
    for text in sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest()):
        if total > CHARACTERS:
            break
        first.append(text)
        total += len(text)
    return first


def train(texts: list[str], pieces: int = PIECES) -> bytes:
    """A SentencePiece model of these texts, with the ids of its padding, unknown, begin and end tokens as in T5."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=pieces, model_type="unigram", byte_fallback=True,
        character_coverage=0.9995, num_threads=1, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


def main() -> None:
    """Read the pages, train, measure, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--packages", type=Path, required=True, help="folder of the Debian packages")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    arguments = parser.parse_args()
    training, held_out = corpus(arguments.packages)
    content = train([text for texts in training.values() for text in chosen(texts)])
    digest = hashlib.sha256(content).hexdigest()
    path = arguments.out / f"manual-pages-8k-{digest[:8]}.model"
    path.write_bytes(content)
    print(f"file {path}\nsha256 {digest}\nsize {len(content)}")
    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    texts = [text for _, text in samples(held_out)]
    characters, pieces = sum(map(len, texts)), sum(len(processor.encode(text)) for text in texts)
    print(f"characters a piece: {characters / pieces:.3f}")


if __name__ == "__main__":
    main()
