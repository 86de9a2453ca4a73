"""Encryption and decryption of tensors' bytes: the operator behind `flambeau.csprng.encrypt` and `decrypt`.

The native kernel is `native/crypt.cpp`, that for CUDA and XPU is in `_aes_triton.py`, the reference is bitsliced.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.core.native import register_op
from flambeau.csprng.ops import _bitsliced
from flambeau.csprng.ops._library import LIBRARY

__all__ = ["CTR_DECRYPT", "CTR_ENCRYPT", "ECB_DECRYPT", "ECB_ENCRYPT", "crypt"]

ECB_ENCRYPT, ECB_DECRYPT, CTR_ENCRYPT, CTR_DECRYPT = range(4)


def crypt(input: Tensor, output: Tensor, key: Tensor, key_bytes: int, method: int, iv: Tensor | None) -> None:
    """Write the cipher text of `input`, or the plain text, into `output`.

    Args:
        input: of any dtype and layout; what counts are its bytes as they lie in memory without gaps.
        output: likewise. Encryption takes the input's bytes rounded up to blocks of 16, decryption whole blocks and up
            to 15 bytes fewer than the input has. With `iv` both may have as many bytes as the input, too.
        key: `key_bytes` bytes in all.
        key_bytes: 16, 24 or 32.
        method: `ECB_ENCRYPT`, `ECB_DECRYPT`, `CTR_ENCRYPT` or `CTR_DECRYPT`. CTR counts blocks from 0, little-endian,
            in their first eight bytes.
        iv: None, or 16 bytes, for CTR: counts from there, big-endian (NIST SP 800-38A).

    Raises:
        RuntimeError: other sizes; tensors on several devices; input and output overlap and are not the same; elements
            of the output share memory.

    Example:
        >>> text = torch.zeros(16, dtype=torch.uint8)
        >>> crypt(text, text, torch.zeros(16, dtype=torch.uint8), 16, ECB_ENCRYPT, None)
        >>> bytes(text.tolist()).hex()
        '66e94bd4ef8a2c3b884cfa59ca342b2e'
    """
    torch.ops.flambeau_csprng.crypt(input, output, key, key_bytes, method, iv)


def _check(input: Tensor, output: Tensor, key: Tensor, key_bytes: int, method: int, iv: Tensor | None) -> None:
    """The same sentences as `checked` of native/crypt.cpp, which has no other devices to see."""
    op = "decrypt" if method in (ECB_DECRYPT, CTR_DECRYPT) else "encrypt"
    devices = {tensor.device for tensor in (input, output, key, iv) if tensor is not None}
    if len(devices) > 1:
        raise RuntimeError(f"{op}: tensors are on {', '.join(sorted(map(str, devices)))}, expected one device.")
    if size_of(key) != key_bytes:
        raise RuntimeError(
            f"{op}: key has {size_of(key)} bytes, expected {key_bytes}; the cipher aes{key_bytes * 8} takes a key of "
            f"{key_bytes * 8} bits."
        )
    if iv is not None and size_of(iv) != 16:
        raise RuntimeError(f"{op}: iv has {size_of(iv)} bytes, expected 16, one block.")
    _check_sizes(op, size_of(input), size_of(output), method, iv is not None)


def _check_sizes(op: str, given: int, wanted: int, method: int, with_iv: bool) -> None:
    if with_iv and given == wanted:
        return
    if method in (ECB_ENCRYPT, CTR_ENCRYPT):
        if wanted != _rounded_up(given):
            raise RuntimeError(
                f"{op}: output has {wanted} bytes, expected {_rounded_up(given)}, the input's {given} in whole blocks "
                "of 16."
            )
    elif given % 16:
        raise RuntimeError(f"{op}: input has {given} bytes, expected whole blocks of 16.")
    elif _rounded_up(wanted) != given:
        raise RuntimeError(f"{op}: output has {wanted} bytes, expected the input's {given} or up to 15 fewer.")


def _check_memory(input: Tensor, output: Tensor, method: int) -> None:
    op = "decrypt" if method in (ECB_DECRYPT, CTR_DECRYPT) else "encrypt"
    if any(size > 1 and stride == 0 for size, stride in zip(output.shape, output.stride(), strict=True)):
        raise RuntimeError(f"{op}: several elements of output are one place in memory; clone it first.")
    if not _same(input, output) and _overlap(input, output):
        raise RuntimeError(f"{op}: input and output overlap in memory; pass the same tensor for both, or a copy.")


def _rounded_up(size: int) -> int:
    return -(-size // 16) * 16


def _same(a: Tensor, b: Tensor) -> bool:
    if a.data_ptr() != b.data_ptr() or size_of(a) != size_of(b):
        return False
    alike = a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
    return alike or (a.is_contiguous() and b.is_contiguous())


def _overlap(a: Tensor, b: Tensor) -> bool:
    """Whether both have a byte in common, exactly."""
    if not a.numel() or not b.numel() or a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return False
    first, second = _places(a), _places(b)
    return bool(torch.isin(first, second).any())


def _places(tensor: Tensor) -> Tensor:
    """Where each byte of a tensor is, counted from the beginning of its storage."""
    places = torch.tensor([tensor.storage_offset()])
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = (places.unsqueeze(-1) + torch.arange(size) * stride).flatten()
    size = tensor.element_size()
    return (places.unsqueeze(-1) * size + torch.arange(size)).flatten()


def size_of(tensor: Tensor) -> int:
    """A tensor's bytes without gaps; `nbytes` is not there for symbolic sizes."""
    return tensor.numel() * tensor.element_size()


def as_bytes(tensor: Tensor) -> Tensor:
    """A tensor's bytes as they lie in memory without gaps, (bytes,), uint8; a view where it has no gaps."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _fake(input: Tensor, output: Tensor, key: Tensor, key_bytes: int, method: int, iv: Tensor | None) -> None:
    _check(input, output, key, key_bytes, method, iv)


def _reference(input: Tensor, output: Tensor, key: Tensor, key_bytes: int, method: int, iv: Tensor | None) -> None:
    _whole(_blocks, input, output, key, key_bytes, method, iv)


def _whole(
    cipher: Callable[[Tensor, Tensor, int, Tensor | None], Tensor],
    input: Tensor, output: Tensor, key: Tensor, key_bytes: int, method: int, iv: Tensor | None,
) -> None:  # fmt: skip
    """Check, make whole blocks, and put what becomes of them into the output, however it lies in memory."""
    _check(input, output, key, key_bytes, method, iv)
    _check_memory(input, output, method)
    given = as_bytes(input)
    missing = -len(given) % 16
    if missing:
        given = torch.cat([given, given.new_zeros(missing)])
    made = cipher(given.view(-1, 16), as_bytes(key), method, None if iv is None else as_bytes(iv))
    output.copy_(made.flatten()[: size_of(output)].clone().view(output.dtype).view(output.shape))


def _blocks(blocks: Tensor, key: Tensor, method: int, iv: Tensor | None) -> Tensor:
    keys = _bitsliced.expand(key)
    if method == ECB_ENCRYPT:
        return _bitsliced.encrypt_blocks(blocks, keys)
    if method == ECB_DECRYPT:
        return _bitsliced.decrypt_blocks(blocks, keys)
    if iv is None:
        counters = _bitsliced.counting_blocks(0, len(blocks), blocks.device)
    else:
        counters = _bitsliced.counting_blocks_from(iv, len(blocks))
    return blocks ^ _bitsliced.encrypt_blocks(counters, keys)


def _native(input: Tensor, output: Tensor, key: Tensor, key_bytes: int, method: int, iv: Tensor | None) -> None:
    """The native kernel through ctypes, where torch's dispatcher cannot call it directly."""
    _check(input, output, key, key_bytes, method, iv)
    _check_memory(input, output, method)
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    types = [pointer, size, pointer, size, pointer, size, size, pointer, ctypes.c_int32]
    source, secret = as_bytes(input), as_bytes(key)
    initial = None if iv is None else as_bytes(iv)
    target = output if output.is_contiguous() else output.contiguous()
    LIBRARY.function("fb_crypt", types, None)(
        source.data_ptr(), size_of(input), target.data_ptr(), size_of(output), secret.data_ptr(), key_bytes, method,
        None if initial is None else initial.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    if target is not output:
        output.copy_(target)


_operator: Any = register_op(
    "crypt(Tensor input, Tensor(a!) output, Tensor key, int key_bytes, int method, Tensor? iv) -> ()",
    library=LIBRARY,
    symbol=_native,
    fake=_fake,
    python=_reference,
    triton="flambeau.csprng.ops._aes_triton:crypt",
)
