"""The native tokenizers: handles of the C interface, and calls with Python's objects."""

from __future__ import annotations

import ctypes
import functools
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.text._native import LIBRARY

_I32, _I64, _P = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "fb_tokenizer_bpe": ([_I32, _P, _I64, _P, _I64, _P, _P, _I64, _I32], _P),
    "fb_tokenizer_wordpiece": ([ctypes.c_char_p, _P, _P, _I64, ctypes.c_char_p, _I64, _I32, _I64, _I32, _I32], _P),
    "fb_tokenizer_add_literal": ([_P, ctypes.c_char_p, _I64, _I32], _I32),
    "fb_tokenizer_encode": ([_P, ctypes.c_char_p, _I64, _P, _P, _I64], _I64),
    "fb_tokenizer_encode_batch": ([_P, ctypes.c_char_p, _P, _I64, _P, _P, _I64], _I64),
    "fb_tokenizer_pad": ([_P, _P, _I64, _I64, _I64, _P], None),
    "fb_tokenizer_free": ([_P], None),
}
# Texts up to this size use a buffer that the thread keeps.
_KEPT = 1 << 16
SCANNERS = {"gpt2": 0, "clip": 1, "words": 2}


def available() -> bool:
    """Whether the native library is there; without it the Python reference serves."""
    return LIBRARY.load() is not None


@functools.cache
def _function(name: str) -> Callable[..., Any]:
    return LIBRARY.function(name, *_SIGNATURES[name])


class _Buffers(threading.local):
    """What one thread encodes short texts into: its address, the numbers, and how many there is room for.

    An array, and not one of ctypes, because it makes a list of its numbers in half the time.
    """

    def __init__(self) -> None:
        self.kept = _numbers(1024)

    def of(self, room: int) -> tuple[int, array[int], int]:
        if room > _KEPT:
            return _numbers(room)
        if room > self.kept[2]:
            self.kept = _numbers(1 << (room - 1).bit_length())
        return self.kept


def _numbers(room: int) -> tuple[int, array[int], int]:
    numbers = array("i", bytes(4 * room))
    return numbers.buffer_info()[0], numbers, room


_BUFFERS = _Buffers()


class NativeTokenizer:
    """A handle. Encoding releases the GIL and may run on many threads at a time.

    Args:
        handle: from the C interface.
        factor: the most ids that one byte of a text gives.
        complete: every text has ids; otherwise -1 stands for what has none.
    """

    def __init__(self, handle: int | None, *, factor: int = 1, complete: bool = False) -> None:
        if not handle:
            raise MemoryError("No memory for the tables of a tokenizer.")
        self._handle: int | None = handle
        self._factor, self.complete = factor, complete
        self._encode = _function("fb_tokenizer_encode")
        self._free = _function("fb_tokenizer_free")

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            self._free(handle)

    def add_literals(self, texts: Iterable[tuple[str, int]]) -> None:
        """Add texts that stand for themselves, with their ids."""
        for text, identity in texts:
            data = text.encode()
            if _function("fb_tokenizer_add_literal")(self._handle, data, len(data), identity):
                raise ValueError(f"{text!r} cannot be a token of its own; it must not be empty.")

    def encode(self, data: bytes) -> list[int]:
        """Ids of one text in UTF-8."""
        # Short texts are the rule, and half of their time goes by in these lines.
        size = len(data)
        room = size * self._factor
        address, ids, kept = _BUFFERS.kept
        if room > kept:
            address, ids, _ = _BUFFERS.of(room)
        count = self._encode(self._handle, data, size, address, None, room)
        if count < 0:
            _checked(count, size)
        return ids[:count].tolist()

    def encode_spans(self, data: bytes) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids of one text in UTF-8, and for each the bytes that it comes from, as (begin, end)."""
        room = len(data) * self._factor
        ids, spans = (_I32 * max(room, 1))(), (_I32 * max(2 * room, 1))()
        count = _checked(self._encode(self._handle, data, len(data), ids, spans, room), len(data))
        return ids[:count], list(zip(spans[0 : 2 * count : 2], spans[1 : 2 * count : 2], strict=True))

    def encode_batch(self, texts: Sequence[bytes]) -> tuple[Any, Any]:
        """Ids of many texts on torch's threads: (flat ids int32, rows int64 of len(texts) + 1) as arrays of numpy."""
        import numpy as np

        data = b"".join(texts)
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=offsets[1:])
        ids = np.empty(max(len(data) * self._factor, 1), np.int32)
        rows = np.empty(len(texts) + 1, np.int64)
        encode = _function("fb_tokenizer_encode_batch")
        status = encode(
            self._handle, data, offsets.ctypes.data, len(texts), ids.ctypes.data, rows.ctypes.data, self._factor
        )
        return ids[: _checked(status, len(data))], rows


def _checked(status: int, size: int) -> int:
    if status == -1:
        raise MemoryError(f"No memory to tokenize {size} bytes; texts may have up to 2**31 - 1 bytes each.")
    if status < 0:
        raise RuntimeError(f"Tokenizing {size} bytes gave more ids than was reckoned with; please report the text.")
    return status


def pad(ids: Any, rows: Any, padding: int, width: int) -> Any:
    """Rows of `encode_batch` as one (rows, width) int64 array, filled up with `padding`."""
    import numpy as np

    count = len(rows) - 1
    output = np.empty((count, width), np.int64)
    _function("fb_tokenizer_pad")(ids.ctypes.data, rows.ctypes.data, count, width, padding, output.ctypes.data)
    return output


def byte_pairs(
    scanner: str,
    symbol_ids: Sequence[int],
    merges: Any,
    *,
    byte_symbols: Sequence[Sequence[int]] | None = None,
    characters: Sequence[tuple[int, int, int]] = (),
    unknown: int = -1,
) -> NativeTokenizer:
    """A tokenizer by byte pairs; the arguments are those of `fb_tokenizer_bpe`."""
    import numpy as np

    ids = np.array(symbol_ids, np.int32)
    table = np.ascontiguousarray(merges, np.int32)
    points = np.array(characters, np.int32).reshape(-1, 3)
    from_bytes = None if byte_symbols is None else np.array(byte_symbols, np.int32)
    return NativeTokenizer(
        _function("fb_tokenizer_bpe")(
            SCANNERS[scanner],
            ids.ctypes.data,
            len(ids),
            table.ctypes.data,
            len(table),
            None if from_bytes is None else from_bytes.ctypes.data,
            points.ctypes.data,
            len(points),
            unknown,
        ),
        complete=bool((ids >= 0).all()) and (from_bytes is not None or unknown >= 0),
    )


def word_pieces(
    pieces: Sequence[str],
    ids: Sequence[int],
    *,
    prefix: str,
    unknown: int,
    longest: int,
    lower_case: bool,
    strip_accents: bool,
    factor: int,
) -> NativeTokenizer:
    """A tokenizer by word pieces; the arguments are those of `fb_tokenizer_wordpiece`."""
    import numpy as np

    encoded = [piece.encode() for piece in pieces]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    numbers = np.array(ids, np.int32)
    return NativeTokenizer(
        _function("fb_tokenizer_wordpiece")(
            b"".join(encoded),
            offsets.ctypes.data,
            numbers.ctypes.data,
            len(encoded),
            prefix.encode(),
            len(prefix.encode()),
            unknown,
            longest,
            int(lower_case),
            int(strip_accents),
        ),
        factor=factor,
        complete=unknown >= 0,
    )
