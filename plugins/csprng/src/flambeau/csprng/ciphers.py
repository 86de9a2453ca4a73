"""Encryption and decryption of tensors by AES (FIPS 197), in the modes ECB and CTR (NIST SP 800-38A).

Neither mode says whether a message was changed, and ECB shows where blocks are equal: for messages use an authenticated
mode, such as AES-GCM of the `cryptography` package. What is here encrypts tensors in place on every device.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections import OrderedDict
from typing import Any, NoReturn

import torch
from torch import Tensor

from flambeau.csprng.errors import CipherError, KeyReuseWarning
from flambeau.csprng.ops.crypt import CTR_DECRYPT, CTR_ENCRYPT, ECB_DECRYPT, ECB_ENCRYPT

__all__ = ["decrypt", "encrypt", "supports_cuda"]

_KEY_BYTES = {"aes128": 16, "aes192": 24, "aes256": 32}
_ENCRYPT = {(cipher, mode): (size, number) for cipher, size in _KEY_BYTES.items() for mode, number in
            (("ecb", ECB_ENCRYPT), ("ctr", CTR_ENCRYPT))}  # fmt: skip
_DECRYPT = {(cipher, mode): (size, number) for cipher, size in _KEY_BYTES.items() for mode, number in
            (("ecb", ECB_DECRYPT), ("ctr", CTR_DECRYPT))}  # fmt: skip
# Elements that the native kernel knows the size of; others are passed as bytes.
_KNOWN = frozenset(
    {
        torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32,
        torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64,
        torch.complex128,
    }
)  # fmt: skip
_crypt = torch.ops.flambeau_csprng.crypt.default


def encrypt(input: Tensor, output: Tensor, key: Tensor, cipher: str, mode: str, *, iv: Tensor | None = None) -> Tensor:
    """Encrypt a tensor's bytes, as they lie in memory without gaps.

    Args:
        input: any shape, dtype and device.
        output: any shape and dtype of the input's device; as many bytes as the input has, rounded up to 16 (what is
            missing of the last block counts as zeros). It may be the input itself.
        key: any shape and dtype; 16 bytes for "aes128", 24 for "aes192", 32 for "aes256".
        cipher: "aes128", "aes192" or "aes256".
        mode: "ecb", each block by itself, or "ctr", added to the cipher of blocks that count.
        iv: for "ctr", 16 bytes that no other message under this key begins from: blocks count from there, big-endian,
            as SP 800-38A has it, and the output may also have as many bytes as the input. Without it blocks count from
            0, little-endian, as upstream: every message under one key is added to the same stream, and two of them
            betray each other. A `KeyReuseWarning` says so, once, when a key is used a second time.

    Returns:
        `output`.

    Raises:
        CipherError: another cipher or mode; `iv` for "ecb".
        RuntimeError: other sizes, several devices, partly overlapping tensors.

    Example:
        >>> key = torch.arange(16, dtype=torch.uint8)
        >>> message, secret = torch.arange(4.0), torch.empty(4)
        >>> _ = encrypt(message, secret, key, "aes128", "ecb")
        >>> decrypt(secret, torch.empty(4), key, "aes128", "ecb")
        tensor([0., 1., 2., 3.])

    References:
        NIST FIPS 197, 2001; NIST SP 800-38A, 2001.
    """
    size_and_mode = _ENCRYPT.get((cipher, mode))
    if size_and_mode is None or (iv is not None and mode != "ctr"):
        _refuse("encrypt", cipher, mode)
    size, number = size_and_mode
    if number == CTR_ENCRYPT and iv is None and not _reuse.warned:
        _reuse.meet(key)
    _run(input, output, key, size, number, iv)
    return output


def decrypt(input: Tensor, output: Tensor, key: Tensor, cipher: str, mode: str, *, iv: Tensor | None = None) -> Tensor:
    """The inverse of `encrypt`.

    Args:
        input: what `encrypt` wrote: whole blocks of 16 bytes; with `iv` any number of bytes.
        output: as many bytes, or up to 15 fewer. It may be the input itself.
        key: as of `encrypt`, and so are the others.
        cipher: "aes128", "aes192" or "aes256".
        mode: "ecb" or "ctr".
        iv: what the message was encrypted with.

    Returns:
        `output`.

    Raises:
        CipherError, RuntimeError: as `encrypt`.
    """
    size_and_mode = _DECRYPT.get((cipher, mode))
    if size_and_mode is None or (iv is not None and mode != "ctr"):
        _refuse("decrypt", cipher, mode)
    _run(input, output, key, *size_and_mode, iv)
    return output


def supports_cuda() -> bool:
    """Whether tensors on CUDA devices can be filled and encrypted: wherever torch has such a device."""
    return torch.cuda.is_available()


def _run(input: Tensor, output: Tensor, key: Tensor, size: int, mode: int, iv: Tensor | None) -> None:
    if not (input.dtype in _KNOWN and output.dtype in _KNOWN and key.dtype in _KNOWN):
        input, output, key = (_as_known(tensor) for tensor in (input, output, key))
    if output.requires_grad:
        output = output.detach()
    _crypt(input, output, key, size, mode, iv)
    torch.autograd.graph.increment_version(output)


def _as_known(tensor: Tensor) -> Tensor:
    """Elements of other dtypes have one byte, so that any layout can be seen as bytes."""
    return tensor if tensor.dtype in _KNOWN else tensor.view(torch.uint8)


def _refuse(op: str, cipher: str, mode: str) -> NoReturn:
    if cipher not in _KEY_BYTES:
        raise CipherError(f"{op}: cipher is {cipher!r}, expected one of {', '.join(map(repr, _KEY_BYTES))}.")
    if mode not in ("ecb", "ctr"):
        raise CipherError(f"{op}: mode is {mode!r}, expected 'ecb' or 'ctr'.")
    raise CipherError(f"{op}: iv is given for mode 'ecb', which has none; use mode 'ctr', or leave it out.")


class _Reuse:
    """Which keys were used without `iv`, by digests that say nothing about them, and nothing outside this process."""

    most = 4096

    def __init__(self) -> None:
        self.warned = False
        self._salt = os.urandom(16)
        self._met: OrderedDict[bytes, None] = OrderedDict()

    def meet(self, key: Tensor) -> None:
        """Warn, once, of a key that was met before."""
        if key.device.type != "cpu" or key.dtype != torch.uint8 or not key.is_contiguous():
            key = key.detach().contiguous().reshape(-1).view(torch.uint8).cpu()
        secret: Any = key.numpy()
        digest = hashlib.blake2b(secret, digest_size=16, key=self._salt).digest()
        if digest in self._met:
            self.warned = True
            warnings.warn(
                "encrypt: a key is used a second time in mode 'ctr' without `iv`: both messages are added to the same "
                "stream, and their sum is that of the plain texts. Pass a new `iv` with each message.",
                KeyReuseWarning,
                stacklevel=3,
            )
        self._met[digest] = None
        if len(self._met) > self.most:
            self._met.popitem(last=False)


_reuse = _Reuse()
