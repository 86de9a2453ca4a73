"""Helpers for tensordicts, under upstream's path; each is defined in the module that is about it."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

_HOME = "flambeau.data.tensordict."

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        _HOME + "_layout.closeness": ("assert_close",),
        _HOME + "_layout.duplicates": ("isin", "remove_duplicates"),
        _HOME + "_layout.index": ("convert_ellipsis_to_idx",),
        _HOME + "_layout.json_backend": ("get_json_backend", "json_dumps", "set_json_backend"),
        _HOME + "_layout.keys": (
            "_unravel_key_to_tuple",
            "is_nested_key",
            "is_seq_of_nested_key",
            "unravel_key",
            "unravel_key_list",
            "unravel_keys",
        ),
        _HOME + "_methods.locking": ("lock_blocked",),
        _HOME + "_non_tensor.stack": ("LinkedList",),
        _HOME + "_tensorcollection": ("is_non_tensor", "is_tensorclass"),
        _HOME + "_utils.caching": ("cache", "erase_cache"),
        _HOME + "_utils.objects": (
            "Buffer",
            "BufferLegacy",
            "KeyDependentDefaultDict",
            "T",
            "int_generator",
            "is_namedtuple",
            "is_namedtuple_class",
        ),
        _HOME + "_utils.shapes": ("expand_as_right", "expand_right", "infer_size_impl", "prod"),
        _HOME + "_utils.text": ("parse_tensor_dict_string", "print_directory_tree"),
        _HOME + "_nestedkey": ("NestedKey",),
        _HOME + "_utils.timing": ("timeit",),
        _HOME + "_utils.versions": ("implement_for",),
        _HOME + "_utils_options": (
            "_legacy_lazy",
            "capture_non_tensor_stack",
            "get_printoptions",
            "lazy_legacy",
            "list_to_stack",
            "set_capture_non_tensor_stack",
            "set_lazy_legacy",
            "set_list_to_stack",
            "set_printoptions",
            "strtobool",
        ),
        _HOME + "memmap.future": ("TensorDictFuture",),
    },
)


def assert_allclose_td(*args: object, **kwargs: object) -> bool:
    """`assert_close`, by its older name."""
    from flambeau.data.tensordict._layout.closeness import assert_close

    return assert_close(*args, **kwargs)  # type: ignore[arg-type]
