"""Contracts of the Flambeau suite: plugins, registries, verified downloads, instant weights, tensor types, kernels.

Every public name is reachable from here by lazy attribute; importing this module imports neither torch nor any plugin.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from typing import Any

__version__ = "1.0.0"
API_VERSION = (1, 0)

# Public name -> module that defines it.
_MODULES: dict[str, tuple[str, ...]] = {
    "plugins": (
        "Plugin", "PluginError", "PluginWarning", "discover", "get_plugin", "hookimpl", "hookspec", "load_plugin",
        "plugin_manager",
    ),
    "registry": (
        "AmbiguousNameError", "DATASETS", "DuplicateNameError", "Entry", "MODELS", "Registry", "RegistryError",
        "TENSOR_TYPES", "UnknownNameError", "WEIGHTS",
    ),
    "weights": (
        "UnsafeCheckpointError", "Weights", "WeightsEnum", "build_with_weights", "empty_parameters", "get_model",
        "get_model_builder", "get_model_weights", "get_weight", "list_models", "list_weights", "load_into",
        "load_state_dict", "register_model",
    ),
    "hub": (
        "DiskFullError", "DownloadError", "GatedError", "HashMismatchError", "HubError", "OfflineError",
        "UnsafeArchiveError", "cache_dir", "cached", "extract_archive", "fetch", "purge", "verify",
    ),
    "datasets": (
        "DatasetInfo", "fetch_dataset", "get_dataset", "get_dataset_info", "list_datasets", "register_dataset",
    ),
    "tensors": (
        "TensorTypeInfo", "TypedTensor", "collate", "get_kernel", "register_kernel", "rewrap", "set_return_type",
        "summary", "tensor_type", "unwrap", "wrap",
    ),
    "native": ("KernelLibrary", "cmake_dir", "include_dir", "register_op", "status"),
    "manifest": ("MANIFEST_NAME", "Manifest", "SCHEMA_VERSION", "read_manifest", "validate_manifest"),
    "cli": ("main",),
}  # fmt: skip
_HOME = {name: module for module, names in _MODULES.items() for name in names}
_SUBMODULES = frozenset({*_MODULES, "environment", "errors", "files", "predict", "progress", "testing"})

__all__ = sorted(["API_VERSION", "__version__", *_HOME])


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
