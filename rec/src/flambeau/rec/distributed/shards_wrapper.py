"""Several parts of one tensor on one process, as the local part of a DTensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor._shards_wrapper import LocalShardsWrapper as _LocalShardsWrapper

__all__ = ["LocalShardsWrapper"]

aten = torch.ops.aten


class LocalShardsWrapper(_LocalShardsWrapper):
    """Parts of a tensor that one process holds, with where each is in the whole.

    That of torch, and what checkpoints and optimizers ask beyond it: copies into it, and tensors like it.

    Args:
        local_shards: the parts.
        local_offsets: where each begins in the whole.
    """

    @staticmethod
    def __new__(
        cls: type[LocalShardsWrapper], local_shards: list[Tensor], local_offsets: list[tuple[int, ...]]
    ) -> LocalShardsWrapper:
        """Parts as one tensor."""
        return _LocalShardsWrapper.__new__(cls, local_shards, local_offsets)  # type: ignore[return-value]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The operator's rule, by part."""
        rules: dict[Any, Callable[..., Any]] = {
            aten.copy_.default: cls.handle_copy_,
            aten.empty_like.default: cls.handle_empty_like,
            aten.zeros_like.default: cls.handle_zeros_like,
        }
        if func in rules:
            return rules[func](args, kwargs or {})
        return super().__torch_dispatch__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]

    @staticmethod
    def handle_copy_(args: Any, kwargs: Any) -> LocalShardsWrapper:
        """Overwrite part by part.

        Args:
            args: what is overwritten, and by what; both with parts of the same shapes.
            kwargs: of the operator.
        """
        target, source = args[:2]
        for mine, given in zip(target.local_shards(), source.local_shards(), strict=True):
            mine.copy_(given, *args[2:], **kwargs)
        return target  # type: ignore[no-any-return]

    @staticmethod
    def handle_empty_like(args: Any, kwargs: Any) -> LocalShardsWrapper:
        """Parts of the same shapes, with any content.

        Args:
            args: what they are like.
            kwargs: of the operator.
        """
        return _like(torch.empty_like, args[0], kwargs)

    @staticmethod
    def handle_zeros_like(args: Any, kwargs: Any) -> LocalShardsWrapper:
        """Parts of the same shapes, zeros.

        Args:
            args: what they are like.
            kwargs: of the operator.
        """
        return _like(torch.zeros_like, args[0], kwargs)


def _like(make: Callable[..., Tensor], wrapper: Any, kwargs: Any) -> LocalShardsWrapper:
    parts = [make(shard, **kwargs) for shard in wrapper.local_shards()]
    return LocalShardsWrapper(parts, [tuple(offsets) for offsets in wrapper.local_offsets()])
