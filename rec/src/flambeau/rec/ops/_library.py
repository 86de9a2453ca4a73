"""The library of rec's native kernels, `torch.ops.flambeau_rec`."""

from __future__ import annotations

from flambeau.core.native import KernelLibrary

__all__ = ["LIBRARY"]


class _Kernels(KernelLibrary):
    """Kernels of operators that are called on small batches as well, by `OPS` the short way."""

    def register(self, operator: str) -> str:
        """As every library does; see `flambeau.rec.ops._short_calls` for the rest."""
        import torch

        from flambeau.rec.ops._short_calls import shorten

        shorten(getattr(getattr(torch.ops, self.namespace), operator).default)
        return super().register(operator)


LIBRARY = _Kernels("flambeau.rec", "_kernels", namespace="flambeau_rec")
