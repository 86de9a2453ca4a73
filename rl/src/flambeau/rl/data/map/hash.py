"""Numbers that stand for tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["BinaryToDecimal", "RandomProjectionHash", "SipHash"]


class BinaryToDecimal(nn.Module):
    """The number that bits write, the highest first; of several groups of bits, the sum.

    Args:
        num_bits: bits of a group, > 0.
        device: where results live.
        dtype: of the powers of two; sums of whole numbers are int64.
        convert_to_binary: whether features are any numbers, of which those above 0 are set bits.
    """

    def __init__(
        self, num_bits: int, device: torch.device | str, dtype: torch.dtype, convert_to_binary: bool = False
    ) -> None:
        super().__init__()
        self.convert_to_binary = convert_to_binary
        self.num_bits = num_bits
        self.bases = (2 ** torch.arange(num_bits - 1, -1, -1, device=device)).to(dtype)

    def forward(self, features: Tensor) -> Tensor:
        """Numbers (rows,) of features (*, bits), whose leading dimensions are flattened.

        Raises:
            ValueError: a number of features that is no multiple of `num_bits`.
        """
        count = features.shape[-1]
        if count % self.num_bits:
            raise ValueError(f"BinaryToDecimal: there are {count} features, expected a multiple of {self.num_bits}.")
        bits = (features > 0) if self.convert_to_binary else features
        groups = bits.reshape(-1, count // self.num_bits, self.num_bits).to(self.bases)
        return (groups * self.bases).sum(-1).sum(-1)


class SipHash(nn.Module):
    """A number for each row of a tensor, the same for rows of the same bytes.

    Unlike Python's own hashes, which upstream takes, it is the same in every process.

    Args:
        as_tensor: whether results are int64 tensors; else the rows' bytes are returned.
    """

    def __init__(self, as_tensor: bool = True) -> None:
        super().__init__()
        self.as_tensor = as_tensor

    def forward(self, x: Tensor) -> Tensor | list[bytes]:
        """Hashes (rows,), int64, of x (rows, *)."""
        plain = x.detach().as_subclass(Tensor).cpu().contiguous()
        rows = plain.reshape(plain.shape[0], -1)
        width = rows.shape[1] * rows.element_size()
        data = rows.view(torch.uint8).numpy().tobytes() if rows.numel() else b""
        names = [data[at * width : (at + 1) * width] for at in range(len(rows))]
        if not self.as_tensor:
            return names
        digests = (hashlib.blake2b(name, digest_size=8).digest() for name in names)
        numbers = [int.from_bytes(digest, "little", signed=True) for digest in digests]
        return torch.tensor(numbers, dtype=torch.int64, device=x.device)


class RandomProjectionHash(SipHash):
    """Hashes of few random projections of rows, so that rows that are nearly equal are likely to have the same.

    Args:
        n_components: how many projections; 16 by default.
        dtype_cast: what they are rounded to.
        as_tensor: see `SipHash`.
        init_method: fills the matrix of projections in place, or returns it; standard normal numbers by default.
        kwargs: see `SipHash`.
    """

    transform: Tensor | None
    _N_COMPONENTS_DEFAULT = 16

    def __init__(
        self,
        *,
        n_components: int | None = None,
        dtype_cast: torch.dtype = torch.bfloat16,
        as_tensor: bool = True,
        init_method: Callable[[Tensor], Tensor | None] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(as_tensor=as_tensor, **kwargs)
        count = self._N_COMPONENTS_DEFAULT if n_components is None else n_components
        self.register_buffer("_n_components", torch.tensor(count))
        self._init = count
        self.dtype_cast = dtype_cast
        self.init_method = init_method
        self.register_buffer("transform", None)

    @property
    def n_components(self) -> int:
        """How many projections there are."""
        return self._init

    def fit(self, x: Tensor) -> None:
        """Make the matrix of projections, (features, n_components), for rows like these."""
        matrix = torch.randn(x.shape[-1], self._init, device=x.device)
        if self.init_method is not None:
            made = self.init_method(matrix)
            matrix = matrix if made is None else made
        self.transform = matrix.to(self.dtype_cast)

    def forward(self, x: Tensor) -> Tensor | list[bytes]:
        """Hashes (rows,), int64, of x (rows, features); the first call makes the projections."""
        if self.transform is None:
            self.fit(x)
        assert self.transform is not None
        return super().forward(x.to(self.dtype_cast) @ self.transform)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if self.transform is None and f"{prefix}transform" in state_dict:
            self.transform = torch.empty_like(state_dict[f"{prefix}transform"])
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._init = int(self._n_components)  # type: ignore[arg-type]  # a buffer of one number
