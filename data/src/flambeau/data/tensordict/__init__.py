"""TensorDict: tensors under names that share their batch dimensions, and all that goes with it.

Importing this package imports no torch; its names load on first use.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_archive": ("is_memmap_archive", "pack_memmap", "refresh_archive_checksums", "unpack_memmap"),
        "_base.factories": (
            "from_any",
            "from_csv",
            "from_dict",
            "from_h5",
            "from_json",
            "from_list",
            "from_namedtuple",
            "from_pandas",
            "from_parquet",
            "from_struct_array",
            "from_tuple",
            "from_zarr",
        ),
        "_layout.closeness": ("assert_close",),
        "_layout.defaults": ("get_defaults_to_none", "set_get_defaults_to_none"),
        "_layout.keys": ("unravel_key", "unravel_key_list"),
        "_lazy": ("LazyStackedTensorDict",),
        "_nestedkey": ("NestedKey",),
        "_layout.small_utils": ("is_batchedtensor", "parse_tensor_dict_string"),
        "_td": ("TensorDict",),
        "_td_functions": (
            "cat",
            "from_consolidated",
            "from_module",
            "from_modules",
            "from_pytree",
            "fromkeys",
            "lazy_stack",
            "load",
            "load_memmap",
            "maybe_dense_stack",
            "memmap",
            "save",
            "stack",
        ),
        "_tensorcollection": ("is_non_tensor", "is_tensor_collection", "is_tensorclass"),
        "_unbatched": ("UnbatchedTensor",),
        "_utils_options": (
            "capture_non_tensor_stack",
            "get_printoptions",
            "lazy_legacy",
            "list_to_stack",
            "set_capture_non_tensor_stack",
            "set_lazy_legacy",
            "set_list_to_stack",
            "set_printoptions",
        ),
        "base": ("TensorDictBase", "default_is_leaf", "is_leaf_nontensor"),
        "functional": ("dense_stack_tds", "make_tensordict", "merge_tensordicts", "pad", "pad_sequence"),
        "memmap": ("MemoryMappedTensor",),
        "_version": ("__version__",),
        "nn.common": ("as_tensordict_module",),
        "nn.params": ("TensorDictParams",),
        "nn.tensorclass_module": ("TensorClassModuleBase", "TensorClassModuleWrapper"),
        "persistent": ("PersistentTensorDict",),
        "store": ("LazyStackedTensorDictStore", "TensorDictStore"),
        "tensorclass": (
            "MetaData",
            "NonTensorData",
            "NonTensorDataBase",
            "NonTensorStack",
            "TensorAttrs",
            "TensorClass",
            "from_dataclass",
            "tensorclass",
        ),
        "utils": ("assert_allclose_td",),
    },
)
