"""Sparse features of a batch: `JaggedTensor`, `KeyedJaggedTensor`, and the dense `KeyedTensor` they become."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flambeau.core.registry import TENSOR_TYPES
from flambeau.rec.sparse._construction import JaggedTensorMeta
from flambeau.rec.sparse._errors import SparseError
from flambeau.rec.sparse._jagged import JaggedTensor
from flambeau.rec.sparse._keyed import KeyedTensor, permute_multi_embedding, regroup_kts
from flambeau.rec.sparse._keyed_jagged import KeyedJaggedTensor

__all__ = [
    "ComputeJTDictToKJT",
    "ComputeKJTToJTDict",
    "JaggedTensor",
    "JaggedTensorMeta",
    "KeyedJaggedTensor",
    "KeyedTensor",
    "SparseError",
    "flatten_kjt_list",
    "jt_is_equal",
    "kjt_is_equal",
    "permute_multi_embedding",
    "regroup_kts",
    "unflatten_kjt_list",
]

# Where programs, pickles and traced graphs find them.
for _name, _class in {"jagged": JaggedTensor, "keyed_jagged": KeyedJaggedTensor, "keyed": KeyedTensor}.items():
    _class.__module__ = __name__
    TENSOR_TYPES.register(_name, _class)
torch.serialization.add_safe_globals([JaggedTensor, KeyedJaggedTensor, KeyedTensor])


class ComputeKJTToJTDict(nn.Module):
    """A KeyedJaggedTensor taken apart into a dictionary, as a module."""

    def forward(self, keyed_jagged_tensor: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """The bags of each key."""
        return keyed_jagged_tensor.to_dict()


class ComputeJTDictToKJT(nn.Module):
    """A dictionary of jagged tensors joined into a KeyedJaggedTensor, as a module."""

    def forward(self, jt_dict: dict[str, JaggedTensor]) -> KeyedJaggedTensor:
        """One key for each entry."""
        return KeyedJaggedTensor.from_jt_dict(jt_dict)


def jt_is_equal(jt_1: object, jt_2: object) -> bool:
    """Whether two are jagged tensors of the same rows and weights; floating-point numbers may differ by rounding."""
    if not isinstance(jt_1, JaggedTensor) or not isinstance(jt_2, JaggedTensor):
        return False
    return _alike(jt_1.weights_or_none(), jt_2.weights_or_none()) and all(
        _alike(one, other)
        for one, other in [
            (jt_1.values(), jt_2.values()),
            (jt_1.lengths(), jt_2.lengths()),
            (jt_1.offsets(), jt_2.offsets()),
        ]
    )


def kjt_is_equal(kjt_1: object, kjt_2: object) -> bool:
    """Whether two are keyed jagged tensors of the same rows and weights under the same keys in order."""
    if not isinstance(kjt_1, KeyedJaggedTensor) or not isinstance(kjt_2, KeyedJaggedTensor):
        return False
    if kjt_1.keys() != kjt_2.keys():
        return False
    keys = kjt_1.keys()
    return all(jt_is_equal(kjt_1[key], kjt_2[key]) for key in keys)


def _alike(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and one.dtype == other.dtype and torch.allclose(one, other)


def flatten_kjt_list(kjt_arr: list[KeyedJaggedTensor]) -> tuple[list[Tensor | None], list[list[str]]]:
    """All tensors of several, one after another, and the keys of each."""
    tensors = [getattr(kjt, name) for kjt in kjt_arr for name in KeyedJaggedTensor._fields]
    return tensors, [kjt.keys() for kjt in kjt_arr]


def unflatten_kjt_list(values: list[Tensor | None], contexts: list[list[str]]) -> list[KeyedJaggedTensor]:
    """What `flatten_kjt_list` took apart."""
    from flambeau.rec.sparse._keyed_jagged import _unflatten

    count = len(KeyedJaggedTensor._fields)
    return [_unflatten(values[count * at : count * (at + 1)], keys) for at, keys in enumerate(contexts)]
