"""Open mutated vocabularies of all tokenizers, in a process that may crash without hurting anyone.

    python fuzz_vocabularies.py FIRST COUNT

Each must be refused with the error that says so, or tokenize any text, or name the piece that it lacks.
"""

from __future__ import annotations

import ctypes
import io
import json
import random
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import mutations
import sentencepiece
import torch

from flambeau.core.errors import CheckpointError
from flambeau.text import transforms
from flambeau.text._native import LIBRARY
from flambeau.text._tokenizers import sentencepiece_model
from flambeau.text.vocab import Vocab, load_vocab

MEMORY = 2**30
TEXTS = ["", "hello world", "  Don't é 中文 12! <|endoftext|> <pad>\n", "a" * 200, "\0\u0130\U0001f600"]
MERGES = "#version\nh e\nl l\nhe ll\nhell o\n"
# What a file that is damaged may raise when it is opened, and a vocabulary that lacks pieces when it is used.
REFUSED = (ValueError, CheckpointError)
LACKING = (KeyError, RuntimeError)


def seeds() -> dict[str, tuple[Callable[[Path], object], bytes]]:
    """For each kind of file how it is opened, and a sound one."""
    base = [*transforms.bytes_to_unicode().values(), "he", "ll", "hell", "hello", "<|endoftext|>", "<pad>"]
    encoder = json.dumps({token: place for place, token in enumerate(base)}).encode()
    pieces = "[PAD]\n[UNK]\nhello\n##o\nd\n##on\n中\n!\n".encode()
    words = json.dumps({"<unk>": 0, **{letter: place for place, letter in enumerate("helo wrd", 1)}}).encode()
    for name, content in (("encoder", encoder), ("merges", MERGES.encode()), ("words", words)):
        (FOLDER / f"sound.{name}").write_bytes(content)
    (FOLDER / "sound.pieces").write_bytes(pieces)
    (FOLDER / "text.txt").write_text("\n".join(["hello world", "words of the world"] * 20))
    sentencepiece.SentencePieceTrainer.train(
        input=str(FOLDER / "text.txt"), model_prefix=str(FOLDER / "sp"), vocab_size=25, minloglevel=2,
        hard_vocab_limit=False, num_threads=1,
    )  # fmt: skip
    gpt2, clip, bert, char = transforms.GPT2BPETokenizer, transforms.CLIPTokenizer, transforms.BERTTokenizer, char_bpe
    found: dict[str, tuple[Callable[[Path], object], bytes]] = {
        "encoder": (lambda path: gpt2(path, FOLDER / "sound.merges"), encoder),
        "merges": (lambda path: gpt2(FOLDER / "sound.encoder", path), MERGES.encode()),
        "clip": (lambda path: clip(path), MERGES.encode()),
        "pieces": (lambda path: bert(path), pieces),
        "words": (lambda path: char(path, FOLDER / "sound.merges"), words),
        "model": (lambda path: sentencepiece_model.read(path.read_bytes()), (FOLDER / "sp.model").read_bytes()),
    }
    made = {
        "gpt2": gpt2(FOLDER / "sound.encoder", FOLDER / "sound.merges"),
        "clip": clip(FOLDER / "sound.merges"),
        "bert": bert(FOLDER / "sound.pieces"),
        "char": char(FOLDER / "sound.words", FOLDER / "sound.merges"),
        "sp": transforms.SentencePieceTokenizer(FOLDER / "sp.model"),
    }
    for name, tokenizer in made.items():
        tokenizer.to_tokenizer_json(FOLDER / "tokenizer.json")
        content = (FOLDER / "tokenizer.json").read_bytes()
        found[f"{name}.json"] = (type(tokenizer).from_tokenizer_json, content)
        found[f"{name}.c"] = (from_c, content)
    file = io.BytesIO()
    torch.save(Vocab(["<unk>", "hello", "é"]), file)
    found["pickle"] = (load_vocab, file.getvalue())
    return found


def char_bpe(encoder: Path, merges: Path) -> transforms.CharBPETokenizer:
    try:
        return transforms.CharBPETokenizer(encoder, merges, unk_token="<unk>")
    except RuntimeError as error:  # upstream's type for a vocabulary without it
        raise ValueError(str(error)) from error


def from_c(path: Path) -> None:
    """What a program in C does with a tokenizer.json."""
    handle = C.fl_tok_open(str(path).encode())
    if not handle:
        raise ValueError(C.fl_tok_error().decode())
    for text in TEXTS:
        data = text.encode()
        ids, rows, offsets = (ctypes.c_int32 * (2 * len(data) + 1))(), (ctypes.c_int64 * 2)(), (ctypes.c_int64 * 2)()
        offsets[1] = len(data)
        count = C.fl_tok_encode_batch(handle, data, offsets, 1, ids, 2 * len(data), rows)
        assert 0 <= count <= 2 * len(data), count
        output = ctypes.create_string_buffer(64)
        C.fl_tok_decode(handle, ids, count, output, 64)
    C.fl_tok_close(handle)


def library() -> ctypes.CDLL | None:
    if LIBRARY.path is None:
        return None
    loaded = ctypes.CDLL(str(LIBRARY.path))
    loaded.fl_tok_open.restype, loaded.fl_tok_open.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    loaded.fl_tok_error.restype = ctypes.c_char_p
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    loaded.fl_tok_encode_batch.restype = number
    loaded.fl_tok_encode_batch.argtypes = [pointer, ctypes.c_char_p, pointer, number, pointer, number, pointer]
    loaded.fl_tok_decode.restype, loaded.fl_tok_decode.argtypes = number, [pointer, pointer, number, pointer, number]
    loaded.fl_tok_close.restype, loaded.fl_tok_close.argtypes = None, [pointer]
    return loaded


def make(draw: random.Random) -> tuple[str, bytes]:
    kind = draw.choice(list(FILES))
    return kind, mutations.mutate(FILES[kind][1], draw)


def read(kind: str, content: bytes) -> bool:
    """Open a file and use what it holds; tells whether all went well."""
    path = FOLDER / f"mutated.{kind}"
    path.write_bytes(content)
    try:
        opened = FILES[kind][0](path)
    except REFUSED:
        return False
    if hasattr(opened, "encode_ids"):
        try:
            opened.encode_ids(TEXTS)
            for text in TEXTS:
                opened.decode(opened.encode_ids(text))
        except LACKING:
            return False
    return True


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    C = library()
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = Path(folder)
        FILES = {kind: file for kind, file in seeds().items() if C is not None or not kind.endswith(".c")}
        FILES.pop("sp.c", None)  # which the library does not read
        assert all(read(kind, content) for kind, (_, content) in FILES.items()), "a seed cannot be read"
        mutations.limit_memory(MEMORY)
        sys.exit(mutations.read_all(make, read))
