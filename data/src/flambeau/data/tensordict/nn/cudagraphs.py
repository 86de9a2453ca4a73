"""`CudaGraphModule`: replay a module's kernels from a CUDA graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict._tensorcollection import is_tensor_collection
from flambeau.data.tensordict.nn._dispatch import dispatch

__all__ = ["CudaGraphModule"]


class CudaGraphModule:
    """Call a module or function through a CUDA graph, which launches all its kernels at once.

    The first calls run plainly, on a stream of their own; then one is captured, and later calls copy their input into
    the memory that was captured and replay. Shapes, dtypes and everything that is no tensor must stay as they were
    then. Nothing may synchronize with the device inside. On the CPU it calls the module.

    Args:
        module: takes tensors, or a tensordict.
        warmup: how many calls run plainly first, at least 1.
        in_keys: the entries of a tensordict that are read; of a module that has them, its own.
        out_keys: the entries that are written, likewise.
        device: the CUDA device; the current one if not given.

    Raises:
        ValueError: `warmup` is below 1.
        RuntimeError: a later input has another structure, shape or dtype.
    """

    def __init__(
        self,
        module: Callable[..., Any],
        warmup: int = 2,
        in_keys: list[Any] | None = None,
        out_keys: list[Any] | None = None,
        device: torch.device | None = None,
    ) -> None:
        if warmup < 1:
            raise ValueError(f"warmup is {warmup}, expected at least 1: memory is set up by a plain call.")
        self.module, self.warmup = module, warmup
        self.in_keys = list(getattr(module, "in_keys", ()) if in_keys is None else in_keys)
        self.out_keys = list(getattr(module, "out_keys", ()) if out_keys is None else out_keys)
        self.device = torch.device("cuda") if device is None else torch.device(device)
        self.counter = 0
        self._graph: Any = None
        if not torch.cuda.is_available():
            warnings.warn("there is no CUDA device: CudaGraphModule calls the module plainly.", stacklevel=2)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, or replay it."""
        takes_tensordict = bool(self.in_keys) or (len(args) == 1 and is_tensor_collection(args[0]))
        if self.in_keys and not (args and is_tensor_collection(args[0])):
            return self._dispatched(*args, **kwargs)
        if takes_tensordict:
            return self._on_tensordict(args[0], *args[1:], **kwargs)
        return self._on_tensors(*args, **kwargs)

    @dispatch(auto_batch_size=False)
    def _dispatched(self, tensordict: Any, *args: Any, **kwargs: Any) -> Any:
        return self._on_tensordict(tensordict, *args, **kwargs)

    # --- the three phases

    def _plainly(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.cuda.is_available():
            return self.module(*args, **kwargs)
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            result = self.module(*args, **kwargs)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        return result

    def _on_tensordict(self, tensordict: Any, *args: Any, **kwargs: Any) -> Any:
        if self.counter < self.warmup or not torch.cuda.is_available():
            self.counter += 1
            return self._plainly(tensordict, *args, **kwargs)
        read = tensordict.select(*self.in_keys) if self.in_keys else tensordict
        if self._graph is None:
            self._input = read.clone()
            self._graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize(self.device)
            with torch.cuda.graph(self._graph):
                out = self.module(self._input, *args, **kwargs)
            self._output = out.select(*self.out_keys) if self.out_keys and out is self._input else out
        else:
            self._input.update_(read, non_blocking=True)
        self._graph.replay()
        result = None if self._output is None else self._output.clone()
        return tensordict.update(result, inplace=False) if self.out_keys and result is not None else result

    def _on_tensors(self, *args: Any, **kwargs: Any) -> Any:
        from torch.utils import _pytree as pytree

        if self.counter < self.warmup or not torch.cuda.is_available():
            self.counter += 1
            return self._plainly(*args, **kwargs)
        leaves, structure = pytree.tree_flatten((args, kwargs))
        if self._graph is None:
            self._structure = structure
            self._input = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(self._input, structure)
            self._graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize(self.device)
            with torch.cuda.graph(self._graph):
                self._output = self.module(*args, **kwargs)
        else:
            self._refill(leaves, structure)
        self._graph.replay()
        return pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, self._output)

    def _refill(self, leaves: list[Any], structure: Any) -> None:
        if structure != self._structure:
            raise RuntimeError("CudaGraphModule: the arguments are nested otherwise than when the graph was captured.")
        for held, given in zip(self._input, leaves, strict=True):
            if isinstance(held, Tensor):
                if given.shape != held.shape or given.dtype != held.dtype:
                    raise RuntimeError(
                        f"CudaGraphModule: an input is {tuple(given.shape)}, {given.dtype}; the graph was captured "
                        f"with {tuple(held.shape)}, {held.dtype}."
                    )
                held.copy_(given, non_blocking=True)
            elif given is not held and given != held:
                raise RuntimeError(f"CudaGraphModule: an argument is {given!r}; the graph was captured with {held!r}.")

    # --- state

    def state_dict(self) -> dict[str, Any]:
        """That of the module; empty for a function."""
        return self.module.state_dict() if isinstance(self.module, nn.Module) else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Load it into the module; values are copied in place, so that a captured graph sees them."""
        if isinstance(self.module, nn.Module):
            return self.module.load_state_dict(state_dict)
        return None
