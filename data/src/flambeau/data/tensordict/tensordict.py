"""Tensordicts and their helpers under upstream's older path; each is defined in the module that is about it."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

_HOME = "flambeau.data.tensordict."

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        _HOME + "_lazy": ("LazyStackedTensorDict",),
        _HOME + "_td": ("TensorDict",),
        _HOME + "base": ("NO_DEFAULT", "TensorDictBase", "is_tensor_collection"),
        _HOME + "functional": ("dense_stack_tds", "make_tensordict", "merge_tensordicts", "pad", "pad_sequence"),
        _HOME + "memmap": ("MemoryMappedTensor",),
        _HOME + "utils": (
            "NestedKey",
            "assert_allclose_td",
            "cache",
            "convert_ellipsis_to_idx",
            "erase_cache",
            "expand_as_right",
            "expand_right",
            "implement_for",
            "infer_size_impl",
            "int_generator",
            "is_nested_key",
            "is_seq_of_nested_key",
            "is_tensorclass",
            "lock_blocked",
        ),
    },
)
