"""Contracts of the Flambeau suite: plugins, registries, verified downloads, instant weights, tensor types, kernels.

Every public name is reachable from here by lazy attribute; importing this module imports neither torch nor any plugin.
"""

from __future__ import annotations

from flambeau.core.version import API_VERSION, __version__

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from typing import Any

    from flambeau.core.cli import main as main
    from flambeau.core.datasets import DatasetInfo as DatasetInfo
    from flambeau.core.datasets import fetch_dataset as fetch_dataset
    from flambeau.core.datasets import get_dataset as get_dataset
    from flambeau.core.datasets import get_dataset_info as get_dataset_info
    from flambeau.core.datasets import list_datasets as list_datasets
    from flambeau.core.datasets import register_dataset as register_dataset
    from flambeau.core.hub import DiskFullError as DiskFullError
    from flambeau.core.hub import DownloadError as DownloadError
    from flambeau.core.hub import GatedError as GatedError
    from flambeau.core.hub import HashMismatchError as HashMismatchError
    from flambeau.core.hub import HubError as HubError
    from flambeau.core.hub import OfflineError as OfflineError
    from flambeau.core.hub import UnsafeArchiveError as UnsafeArchiveError
    from flambeau.core.hub import cache_dir as cache_dir
    from flambeau.core.hub import cached as cached
    from flambeau.core.hub import extract_archive as extract_archive
    from flambeau.core.hub import fetch as fetch
    from flambeau.core.hub import purge as purge
    from flambeau.core.hub import read_archive as read_archive
    from flambeau.core.hub import verify as verify
    from flambeau.core.manifest import MANIFEST_NAME as MANIFEST_NAME
    from flambeau.core.manifest import SCHEMA_VERSION as SCHEMA_VERSION
    from flambeau.core.manifest import Manifest as Manifest
    from flambeau.core.manifest import read_manifest as read_manifest
    from flambeau.core.manifest import validate_manifest as validate_manifest
    from flambeau.core.native import KernelLibrary as KernelLibrary
    from flambeau.core.native import cmake_dir as cmake_dir
    from flambeau.core.native import include_dir as include_dir
    from flambeau.core.native import register_op as register_op
    from flambeau.core.native import status as status
    from flambeau.core.plugins import Plugin as Plugin
    from flambeau.core.plugins import PluginError as PluginError
    from flambeau.core.plugins import PluginWarning as PluginWarning
    from flambeau.core.plugins import discover as discover
    from flambeau.core.plugins import get_plugin as get_plugin
    from flambeau.core.plugins import hookimpl as hookimpl
    from flambeau.core.plugins import hookspec as hookspec
    from flambeau.core.plugins import load_plugin as load_plugin
    from flambeau.core.plugins import plugin_manager as plugin_manager
    from flambeau.core.registry import DATASETS as DATASETS
    from flambeau.core.registry import MODELS as MODELS
    from flambeau.core.registry import TENSOR_TYPES as TENSOR_TYPES
    from flambeau.core.registry import WEIGHTS as WEIGHTS
    from flambeau.core.registry import AmbiguousNameError as AmbiguousNameError
    from flambeau.core.registry import DuplicateNameError as DuplicateNameError
    from flambeau.core.registry import Entry as Entry
    from flambeau.core.registry import Registry as Registry
    from flambeau.core.registry import RegistryError as RegistryError
    from flambeau.core.registry import UnknownNameError as UnknownNameError
    from flambeau.core.tensors import TensorTypeInfo as TensorTypeInfo
    from flambeau.core.tensors import TypedTensor as TypedTensor
    from flambeau.core.tensors import collate as collate
    from flambeau.core.tensors import get_kernel as get_kernel
    from flambeau.core.tensors import register_kernel as register_kernel
    from flambeau.core.tensors import rewrap as rewrap
    from flambeau.core.tensors import set_return_type as set_return_type
    from flambeau.core.tensors import summary as summary
    from flambeau.core.tensors import tensor_type as tensor_type
    from flambeau.core.tensors import unwrap as unwrap
    from flambeau.core.tensors import wrap as wrap
    from flambeau.core.weights import UnsafeCheckpointError as UnsafeCheckpointError
    from flambeau.core.weights import Weights as Weights
    from flambeau.core.weights import WeightsEnum as WeightsEnum
    from flambeau.core.weights import build_with_weights as build_with_weights
    from flambeau.core.weights import empty_parameters as empty_parameters
    from flambeau.core.weights import get_model as get_model
    from flambeau.core.weights import get_model_builder as get_model_builder
    from flambeau.core.weights import get_model_weights as get_model_weights
    from flambeau.core.weights import get_weight as get_weight
    from flambeau.core.weights import list_models as list_models
    from flambeau.core.weights import list_weights as list_weights
    from flambeau.core.weights import load_into as load_into
    from flambeau.core.weights import load_state_dict as load_state_dict
    from flambeau.core.weights import register_model as register_model


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
        "UnsafeArchiveError", "cache_dir", "cached", "extract_archive", "fetch", "purge", "read_archive",
        "verify",
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
