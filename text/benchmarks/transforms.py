"""From texts to a padded tensor, beside the library `tokenizers`, with the same vocabulary, on one thread.

    python text/benchmarks/transforms.py [--sentences 4000] [--batch 64]

Sentences are those of Python's own language help. The steps are those that models here use: tokens, their indices in a
vocabulary, truncation, a first and a last token, padding. CPU time, the best of several repetitions, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from _peers import peer

from flambeau.text import transforms
from flambeau.text.vocab import Vocab


def sentences(count: int) -> list[str]:
    from pydoc_data.topics import topics

    text = " ".join("\n".join(topics.values()).split())
    found = [one for one in re.split(r"(?<=[.!?]) ", text) if 20 < len(one) < 400]
    return (found * (count // len(found) + 1))[:count]


def trained(lines: list[str], folder: Path) -> tuple[Path, Path, Path]:
    """Byte pairs and word pieces learned from the text by the peer, as files of GPT-2's and BERT's kinds."""
    from tokenizers import BertWordPieceTokenizer, Tokenizer, models, pre_tokenizers, trainers

    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pairs.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=8000, initial_alphabet=alphabet, show_progress=False)
    )
    model = json.loads(pairs.to_str())["model"]
    encoder, merges = folder / "encoder.json", folder / "vocab.bpe"
    encoder.write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges.write_text("\n".join(["#version: 0.2", *map(" ".join, model["merges"]), ""]), encoding="utf-8")
    pieces = BertWordPieceTokenizer()
    pieces.train_from_iterator(lines, vocab_size=8000, show_progress=False)
    vocabulary = folder / "vocab.txt"
    ordered = sorted(pieces.get_vocab().items(), key=lambda item: item[1])
    vocabulary.write_text("".join(f"{token}\n" for token, _ in ordered), encoding="utf-8")
    return encoder, merges, vocabulary


def pipeline(tokenizer: torch.nn.Module, step: torch.nn.Module) -> transforms.Sequential:
    return transforms.Sequential(
        tokenizer,
        step,
        transforms.Truncate(254),
        transforms.AddToken(0),
        transforms.AddToken(2, begin=False),
        transforms.ToTensor(padding_value=1),
    )


def by_tokenizers(path: Path) -> Callable[[list[str]], object]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding(pad_id=1)

    def run(lines: list[str]) -> object:
        encodings = tokenizer.encode_batch_fast(lines, add_special_tokens=False)
        return torch.tensor([encoding.ids for encoding in encodings])

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sentences", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if peer("tokenizers") is None:
        raise SystemExit("This needs the peer, which also trains the vocabularies: pip install tokenizers")
    lines = sentences(given.sentences)
    batches = [lines[at : at + given.batch] for at in range(0, len(lines), given.batch)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        encoder, merges, vocabulary = trained(lines, folder)
        gpt2 = transforms.GPT2BPETokenizer(str(encoder), str(merges))
        bert = transforms.BERTTokenizer(str(vocabulary))
        gpt2.to_tokenizer_json(folder / "gpt2.json")
        bert.to_tokenizer_json(folder / "bert.json")
        numbers = Vocab([str(number) for number in range(gpt2.vocab_size)])
        one = pipeline(gpt2, transforms.VocabTransform(numbers))
        works: dict[str, Callable[[list[str]], object]] = {
            "GPT-2, VocabTransform": one,
            "GPT-2, StrToIntTransform": pipeline(gpt2, transforms.StrToIntTransform()),
            "GPT-2, one by one, VocabTransform": lambda batch: [one(line) for line in batch],
            "GPT-2, tokenizer.to_tensor": lambda batch: gpt2.to_tensor(batch, padding_value=1),
            "tokenizers, GPT-2": by_tokenizers(folder / "gpt2.json"),
            "BERT, StrToIntTransform": pipeline(bert, transforms.StrToIntTransform()),
            "BERT, tokenizer.to_tensor": lambda batch: bert.to_tensor(batch, padding_value=1),
            "tokenizers, BERT": by_tokenizers(folder / "bert.json"),
        }
        least = dict.fromkeys(works, float("inf"))
        for _ in range(given.repetitions):
            for what, work in works.items():
                start = time.process_time()
                for batch in batches:
                    work(batch)
                least[what] = min(least[what], time.process_time() - start)
    size = sum(len(line.encode()) for line in lines) / len(lines)
    print(f"{len(lines):,} sentences of {size:.0f} bytes in batches of {given.batch}")
    for what, seconds in least.items():
        print(
            f"  {what:36} {len(lines) / seconds:10,.0f} sentences/s {seconds / least['GPT-2, VocabTransform']:6.2f} x"
        )


if __name__ == "__main__":
    main()
