"""Tokenizers beside the libraries `tokenizers` and `tiktoken`, in one process, on one thread, with the same vocabulary.

    python text/benchmarks/tokenization.py [--text FILE] [--encoder FILE --merges FILE] [--vocabulary FILE]

Without files the text is the help of Python's own language topics (about 0.7 MB of English), and the vocabularies are
trained on it by `tokenizers`. Times are CPU time, the best of several repetitions, product and peers in turn; caches
are warm but for the row that says otherwise. A peer that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from _peers import peer

from flambeau.text import transforms

PATTERN = r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
Works = dict[str, Callable[[], object]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--text", type=Path, help="UTF-8 text; a line is one sample")
    parser.add_argument("--encoder", help="encoder.json of GPT-2's kind")
    parser.add_argument("--merges", help="vocab.bpe of GPT-2's kind")
    parser.add_argument("--vocabulary", help="vocab.txt of BERT's kind")
    parser.add_argument("--megabytes", type=float, default=2.0, help="how much text to use")
    parser.add_argument("--repetitions", type=int, default=5)
    return parser.parse_args()


def lines_of(path: Path | None, megabytes: float) -> list[str]:
    if path is None:
        from pydoc_data.topics import topics

        text = "\n".join(topics.values())
    else:
        text = path.read_text(encoding="utf-8")
    lines = [line for line in text.split("\n") if line.strip()]
    size = sum(len(line.encode()) for line in lines)
    return (lines * (int(megabytes * 1e6 / size) + 1))[: max(int(len(lines) * megabytes * 1e6 / size), 1)]


def trained_pairs(lines: list[str], folder: Path) -> tuple[str, str]:
    """Byte pairs learned from the text, by the peer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    theirs.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=30000, initial_alphabet=alphabet, show_progress=False)
    )
    model = json.loads(theirs.to_str())["model"]
    (folder / "encoder.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges = [" ".join(pair) for pair in model["merges"]]
    (folder / "vocab.bpe").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    return str(folder / "encoder.json"), str(folder / "vocab.bpe")


def trained_pieces(lines: list[str], folder: Path) -> str:
    """Word pieces learned from the text, by the peer."""
    from tokenizers import BertWordPieceTokenizer

    theirs = BertWordPieceTokenizer()
    theirs.train_from_iterator(lines, vocab_size=15000, show_progress=False)
    vocabulary = sorted(theirs.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token, _ in vocabulary), encoding="utf-8")
    return str(folder / "vocab.txt")


def of_tiktoken(encoder: str) -> Callable[[list[str]], object]:
    import tiktoken

    byte_of = {character: byte for byte, character in transforms.bytes_to_unicode().items()}
    vocabulary = json.loads(Path(encoder).read_text(encoding="utf-8"))
    ranks = {
        bytes(byte_of[character] for character in token): identity
        for token, identity in vocabulary.items()
        if all(character in byte_of for character in token) and not token.startswith("<|")
    }
    theirs = tiktoken.Encoding("peer", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return lambda texts: [theirs.encode_ordinary(text) for text in texts]


def of_tokenizers(
    tokenizer: transforms.GPT2BPETokenizer, folder: Path, *, published: bool
) -> Callable[[list[str]], object]:
    """The peer with our vocabulary; `published` replaces our words' pattern by the peer's own, faster one."""
    from tokenizers import Tokenizer, pre_tokenizers

    tokenizer.to_tokenizer_json(folder / "tokenizer.json")
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    if published:
        theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return lambda texts: [encoding.ids for encoding in theirs.encode_batch_fast(texts, add_special_tokens=False)]


def measured(works: Works, repetitions: int) -> dict[str, float]:
    """The least CPU seconds of each, in turn, so that what else the machine does meets all alike."""
    best = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()
    for _ in range(repetitions):
        for name, work in works.items():
            start = time.process_time()
            work()
            best[name] = min(best[name], time.process_time() - start)
    return best


def report(title: str, seconds: dict[str, float], size: int) -> None:
    first = next(iter(seconds.values()))
    print(f"\n{title} ({size / 1e6:.2f} MB)")
    for name, value in seconds.items():
        print(f"  {name:42} {size / value / 1e6:8.2f} MB/s   {value / first:6.2f} x our time")


def construction(name: str, make: Callable[[], transforms.GPT2BPETokenizer]) -> None:
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        make().encode_ids("a")
        best = min(best, time.process_time() - start)
    print(f"  {name:42} {best * 1e3:8.1f} ms to construct")


def main() -> None:
    options = arguments()
    # This file has the name of a peer: its folder must not be where the peer is looked for.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    torch.set_num_threads(1)
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if not (options.encoder and options.merges and options.vocabulary) and peer("tokenizers") is None:
        raise SystemExit("Without files of vocabularies this needs the peer that trains them: pip install tokenizers")
    lines = lines_of(options.text, options.megabytes)
    size = sum(len(line.encode()) for line in lines)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        encoder, merges = (options.encoder, options.merges) if options.encoder else trained_pairs(lines, folder)
        gpt2 = transforms.GPT2BPETokenizer(encoder, merges)
        works: Works = {
            "GPT2BPETokenizer.encode_ids, batch": lambda: gpt2.encode_ids(lines),
            "GPT2BPETokenizer.encode_ids, one by one": lambda: [gpt2.encode_ids(line) for line in lines],
            "GPT2BPETokenizer, ids as strings": lambda: gpt2(lines),
        }
        if peer("tiktoken"):
            tiktoken = of_tiktoken(encoder)
            works["tiktoken"] = lambda: tiktoken(lines)
        if peer("tokenizers"):
            tokenizers = of_tokenizers(gpt2, folder, published=True)
            works["tokenizers"] = lambda: tokenizers(lines)
        report(f"Byte pairs, {gpt2.vocab_size} tokens", measured(works, options.repetitions), size)
        construction("GPT2BPETokenizer", lambda: transforms.GPT2BPETokenizer(encoder, merges))

        path = options.vocabulary or trained_pieces(lines, folder)
        bert = transforms.BERTTokenizer(path)
        works = {
            "BERTTokenizer.encode_ids, batch": lambda: bert.encode_ids(lines),
            "BERTTokenizer.encode_ids, one by one": lambda: [bert.encode_ids(line) for line in lines],
            "BERTTokenizer, ids as strings": lambda: bert(lines),
            "BERTTokenizer.to_tensor": lambda: bert.to_tensor(lines, padding_value=0),
        }
        if peer("tokenizers"):
            from tokenizers import BertWordPieceTokenizer

            other = BertWordPieceTokenizer(path)
            works["tokenizers"] = lambda: [e.ids for e in other.encode_batch(lines, add_special_tokens=False)]
        report(f"Word pieces, {bert.vocab_size} tokens", measured(works, options.repetitions), size)
        construction("BERTTokenizer", lambda: transforms.BERTTokenizer(path))


if __name__ == "__main__":
    main()
