"""Values of JAX as tensors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Composite, Unbounded

# torch knows little to do with these: they travel in the next larger dtype.
_LARGER = {"uint16": torch.int32, "uint32": torch.int64, "uint64": torch.int64}


def to_torch(value: Any, device: Any = None) -> Tensor:
    """An array of JAX as a tensor of its own.

    Args:
        value: the array.
        device: of the tensor.
    """
    array = np.array(value)
    if array.dtype.name in _LARGER:
        array = array.astype(str(_LARGER[array.dtype.name]).removeprefix("torch."))
    return torch.from_numpy(array).to(device or "cpu")


class Tree:
    """How a structure of arrays becomes a tensordict, and one of them the structure again.

    Args:
        example: the structure, of any batch size.
    """

    def __init__(self, example: Any) -> None:
        import jax

        leaves, self.structure = jax.tree_util.tree_flatten_with_path(example)
        self.keys = [tuple(_name(part) for part in path) for path, _ in leaves]
        self.dtypes = [np.dtype(leaf.dtype) if hasattr(leaf, "dtype") else np.asarray(leaf).dtype for _, leaf in leaves]

    def tensors(self, structure: Any, size: Size, device: Any = None) -> Any:
        """The structure as a tensordict.

        Args:
            structure: like the example.
            size: of the batch, with which every array begins.
            device: of the tensors.
        """
        import jax

        out = TensorDict({}, size, device=device)
        for key, leaf in zip(self.keys, jax.tree_util.tree_leaves(structure), strict=True):
            out.set(key, to_torch(leaf, device))
        return out

    def arrays(self, data: Any) -> Any:
        """The structure of a tensordict.

        Args:
            data: as `tensors` makes it.
        """
        import jax
        import jax.numpy as jnp

        leaves = [
            jnp.asarray(data.get(key).detach().cpu().numpy().astype(dtype))
            for key, dtype in zip(self.keys, self.dtypes, strict=True)
        ]
        return jax.tree_util.tree_unflatten(self.structure, leaves)

    def spec(self, structure: Any, size: Size, device: Any = None) -> Composite:
        """Unbounded specs like the structure.

        Args:
            structure: like the example.
            size: of the batch.
            device: of the specs.
        """
        return _spec(self.tensors(structure, size, device), size, device)


def _spec(data: Any, size: Size, device: Any) -> Composite:
    found = {
        key: Unbounded(value.shape, dtype=value.dtype, device=device)
        if isinstance(value, Tensor)
        else _spec(value, size, device)
        for key, value in data.items()
    }
    return Composite(found, shape=size, device=device)


def _name(part: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(part, attribute):
            return str(getattr(part, attribute))
    return str(part)


def over_batch(function: Any, dimensions: int) -> Any:
    """A function of single values for batches of them, compiled.

    Args:
        function: of arrays, or structures of them.
        dimensions: of the batch.
    """
    import jax

    for _ in range(dimensions):
        function = jax.vmap(function)
    return jax.jit(function)


def keys_of(key: Any, size: Size) -> tuple[Any, Any]:
    """A next key of random numbers, and one for every entry of a batch.

    Args:
        key: the last one.
        size: of the batch.
    """
    import jax

    following, *drawn = jax.random.split(key, 1 + max(1, size.numel()))
    drawn = jax.numpy.stack(drawn)
    return following, drawn.reshape(*size, *drawn.shape[1:])
