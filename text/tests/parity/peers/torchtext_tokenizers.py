"""The tokenizers' cells of the suite against torchtext: every set-up on every text of the corpus, and their errors."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from torchtext_tables import without_files
from unicode_corpus import TEXTS

from flambeau.core.testing.differential import Cell, Library, cross, read_table

VOCABULARIES = Path(__file__).resolve().parents[1] / "vocabularies"

GPT2 = {"encoder_json_path": "gpt2_encoder.json", "vocab_bpe_path": "gpt2_vocab.bpe"}
CHARACTERS = {"bpe_encoder_path": "char_bpe_encoder.json", "bpe_merges_path": "char_bpe_merges.txt"}
# Name of a set-up -> class in `transforms`, files, further arguments.
SETUPS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "gpt2": ("GPT2BPETokenizer", GPT2, {}),
    "gpt2 tokens": ("GPT2BPETokenizer", GPT2, {"return_tokens": True}),
    "clip": ("CLIPTokenizer", {"merges_path": "clip_merges.bpe", "encoder_json_path": "clip_encoder.json"}, {}),
    "clip tokens": (
        "CLIPTokenizer",
        {"merges_path": "clip_merges.bpe", "encoder_json_path": "clip_encoder.json"},
        {"return_tokens": True},
    ),
    "clip 200": ("CLIPTokenizer", {"merges_path": "clip_merges.bpe"}, {"num_merges": 200}),
    "bert uncased": ("BERTTokenizer", {"vocab_path": "bert_uncased_vocab.txt"}, {}),
    "bert uncased tokens": ("BERTTokenizer", {"vocab_path": "bert_uncased_vocab.txt"}, {"return_tokens": True}),
    "bert cased tokens": (
        "BERTTokenizer",
        {"vocab_path": "bert_cased_vocab.txt"},
        {"do_lower_case": False, "return_tokens": True},
    ),
    "bert cased without accents": (
        "BERTTokenizer",
        {"vocab_path": "bert_cased_vocab.txt"},
        {"do_lower_case": False, "strip_accents": True},
    ),
    "bert never split": (
        "BERTTokenizer",
        {"vocab_path": "bert_uncased_vocab.txt"},
        {"never_split": ["[UNK]", "[CLS]", "[SEP]", "[MASK]"], "return_tokens": True},
    ),
    "characters": ("CharBPETokenizer", CHARACTERS, {"unk_token": "<unk>", "suffix": "</w>"}),
    "characters tokens": (
        "CharBPETokenizer",
        CHARACTERS,
        {"unk_token": "<unk>", "suffix": "</w>", "return_tokens": True},
    ),
    "pieces unigram": ("SentencePieceTokenizer", {"sp_model_path": "sp_unigram.model"}, {}),
    "pieces bytes": ("SentencePieceTokenizer", {"sp_model_path": "sp_bpe_bytes.model"}, {}),
}


@functools.cache
def _made(ours: bool, namespace: Any, name: str) -> Any:
    kind, files, options = SETUPS[name]
    paths = {argument: str(VOCABULARIES / file) for argument, file in files.items()}
    return getattr(namespace, kind)(**paths, **options)


def tok(library: Library, name: str) -> Any:
    """The tokenizer of a set-up, made once for each library."""
    return _made(library.ours, library.transforms, name)


def made(library: Library, name: str, **options: Any) -> Any:
    """A fresh tokenizer of a set-up, with further arguments."""
    kind, files, own = SETUPS[name]
    paths = {argument: str(VOCABULARIES / file) for argument, file in files.items()}
    return getattr(library.transforms, kind)(**(paths | own | options))


TABLES = read_table(Path(__file__).with_suffix(".txt"))

NAMES = {"tok": tok, "made": made, "V": str(VOCABULARIES)}

KINDS = {name: {"text": (lambda library, text=text: text)} for name, text in TEXTS.items()}

# On every text of the corpus.
OF_TEXTS = [
    *(f"tok(library, {name!r})(text)" for name in SETUPS),
    "data.utils.get_tokenizer('basic_english')(text)",
    "data.utils.get_tokenizer(None)(text)",
    "prototype.transforms.basic_english_normalize()(text)",
    "transforms.RegexTokenizer([(r\"''|[,.]\", ' '), ('[0-9]+', '#')])(text)",
]

LISTS = {
    "words": {"texts": "['hello world', 'Hällo', '', 'a b']"},
    "none": {"texts": "[]"},
    "number": {"texts": "3"},
    "nothing": {"texts": "None"},
    "bytes": {"texts": "b'a'"},
    "tuple": {"texts": "('a', 'b')"},
    "mixed": {"texts": "['a', 3]"},
    "nested": {"texts": "[['a'], ['b']]"},
}
OF_LISTS = [f"tok(library, {name!r})(texts)" for name in SETUPS]

BY_HAND = TABLES["by hand"]


def cells() -> list[Cell]:
    """All cells of tokenizers."""
    return [
        *cross("tokenizers", KINDS, OF_TEXTS, names=NAMES),
        *cross("tokenizers/lists", LISTS, OF_LISTS, names=NAMES),
        *without_files(cross("tokenizers", {"by hand": {}}, BY_HAND, names=NAMES)),
    ]
