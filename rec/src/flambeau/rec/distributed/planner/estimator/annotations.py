"""Decorators that say what a kind of hardware does differently: its bandwidths, and formulas of its own.

::

    @hbm_mem_bw(4.8e9)
    class Card(HardwarePerfConfig):
        @fwd_comms(sharding_type="table_wise")
        def exchange(self, ctx: ShardPerfContext) -> float:
            return 0.1 + ctx.batch_outputs * ctx.emb_dim * 4 / 4e8

Bandwidths are in bytes a millisecond, times in milliseconds, whatever methods are called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = [
    "backward_compute",
    "bwd_coefficient",
    "bwd_comms",
    "ddr_mem_bw",
    "device_bw",
    "forward_compute",
    "fwd_coefficient",
    "fwd_comms",
    "get_backward_compute",
    "get_bwd_coefficient",
    "get_bwd_comms",
    "get_custom_method",
    "get_forward_compute",
    "get_fwd_coefficient",
    "get_fwd_comms",
    "get_input_dist_comms",
    "get_output_write_size",
    "get_prefetch_coefficient",
    "get_prefetch_compute",
    "hbm_mem_bw",
    "hbm_to_ddr_mem_bw",
    "input_data_type_size",
    "input_dist_comms",
    "inter_host_bw",
    "intra_host_bw",
    "output_write_size",
    "prefetch_coefficient",
    "prefetch_compute",
    "ssd_mem_bw",
    "supported_sharding_types",
    "use_block_usage_penalty",
    "use_bytes_for_input_read_size",
    "use_min_dim_for_lookup",
]

T = TypeVar("T")
Formula = Callable[..., float]
Kinds = str | list[str] | None
_Marked = Formula | Callable[[Formula], Formula]


def _set(name: str, value: object) -> Callable[[type[T]], type[T]]:
    def decorate(config: type[T]) -> type[T]:
        setattr(config, name, value)
        return config

    return decorate


def hbm_mem_bw(value: float) -> Callable[[type[T]], type[T]]:
    """A device's memory has this bandwidth."""
    return _set("hbm_mem_bw", value)


def ddr_mem_bw(value: float) -> Callable[[type[T]], type[T]]:
    """The host's memory has this bandwidth."""
    return _set("ddr_mem_bw", value)


def ssd_mem_bw(value: float) -> Callable[[type[T]], type[T]]:
    """Solid-state drives have this bandwidth."""
    return _set("ssd_mem_bw", value)


def hbm_to_ddr_mem_bw(value: float) -> Callable[[type[T]], type[T]]:
    """The link between a device's memory and the host's has this bandwidth."""
    return _set("hbm_to_ddr_mem_bw", value)


def intra_host_bw(value: float) -> Callable[[type[T]], type[T]]:
    """Links inside of a host have this bandwidth."""
    return _set("intra_host_bw", value)


def inter_host_bw(value: float) -> Callable[[type[T]], type[T]]:
    """Links between hosts have this bandwidth."""
    return _set("inter_host_bw", value)


def input_data_type_size(value: float) -> Callable[[type[T]], type[T]]:
    """Ids take this many bytes."""
    return _set("_input_data_type_size", value)


def use_min_dim_for_lookup(value: bool = True) -> Callable[[type[T]], type[T]]:
    """Whether rows of less than 32 columns are read as if they had 32; by default tables that stay whole are."""
    return _set("_use_min_dim_for_lookup", value)


def use_block_usage_penalty(value: bool = True) -> Callable[[type[T]], type[T]]:
    """Whether less than 128 columns take longer than their share; by default those of tables that stay whole do."""
    return _set("_use_block_usage_penalty", value)


def use_bytes_for_input_read_size(value: bool = True) -> Callable[[type[T]], type[T]]:
    """Whether bytes of ids count, as by default, rather than how many there are."""
    return _set("_use_bytes_for_input_read_size", value)


def supported_sharding_types(*sharding_types: str) -> Callable[[type[T]], type[T]]:
    """Only these values of `ShardingType` can be estimated."""
    return _set("_supported_sharding_types", frozenset(sharding_types))


def device_bw(
    bandwidth: float | None = None, *, device: str | None = None, compute_kernel: str | list[str] | None = None
) -> Callable[[type[T]], type[T]]:
    """Kernels read and write with this bandwidth: all of them, or, with both of the others, some on one kind of device.

    Args:
        bandwidth: bytes a millisecond.
        device: "cuda", "cpu" or "mtia".
        compute_kernel: values of `EmbeddingComputeKernel`.
    """
    if device is None or compute_kernel is None:
        return _set("device_bw", bandwidth)
    kernels = [compute_kernel] if isinstance(compute_kernel, str) else compute_kernel

    def decorate(config: type[T]) -> type[T]:
        known = getattr(config, "kernel_device_bandwidths", {})
        return _set("kernel_device_bandwidths", {**known, **{(device, kernel): bandwidth for kernel in kernels}})(
            config
        )

    return decorate


def _formula(name: str, method_or_sharding_type: Formula | Kinds, sharding_type: Kinds) -> _Marked:
    """Mark a method as a formula, for some sharding types or all."""
    kinds = sharding_type if callable(method_or_sharding_type) else method_or_sharding_type or sharding_type

    def mark(method: Formula) -> Formula:
        vars(method)[f"_is_custom_{name}"] = True
        vars(method)["_custom_sharding_type"] = kinds
        return method

    return mark(method_or_sharding_type) if callable(method_or_sharding_type) else mark


def forward_compute(method_or_sharding_type: Formula | Kinds = None, *, sharding_type: Kinds = None) -> _Marked:
    """The method gives, from a `ShardPerfContext`, the milliseconds of a look-up. With or without parentheses.

    Args:
        method_or_sharding_type: the method, or values of `ShardingType` that it is for; all by default.
        sharding_type: the same by name.
    """
    return _formula("forward_compute", method_or_sharding_type, sharding_type)


def backward_compute(method_or_sharding_type: Formula | Kinds = None, *, sharding_type: Kinds = None) -> _Marked:
    """The method gives the milliseconds of an update; see `forward_compute`."""
    return _formula("backward_compute", method_or_sharding_type, sharding_type)


def input_dist_comms(method_or_sharding_type: Formula | Kinds = None, *, sharding_type: Kinds = None) -> _Marked:
    """The method gives the milliseconds in which ids are sent; see `forward_compute`."""
    return _formula("input_dist_comms", method_or_sharding_type, sharding_type)


def fwd_comms(method_or_sharding_type: Formula | Kinds = None, *, sharding_type: Kinds = None) -> _Marked:
    """The method gives the milliseconds in which what was looked up is sent; see `forward_compute`."""
    return _formula("fwd_comms", method_or_sharding_type, sharding_type)


def bwd_comms(method_or_sharding_type: Formula | Kinds = None, *, sharding_type: Kinds = None) -> _Marked:
    """The method gives the milliseconds in which gradients are sent; see `forward_compute`."""
    return _formula("bwd_comms", method_or_sharding_type, sharding_type)


def output_write_size(method_or_sharding_type: Formula | Kinds = None, *, sharding_type: Kinds = None) -> _Marked:
    """The method gives, from a context and `is_fwd`, the bytes that a kernel writes; see `forward_compute`."""
    return _formula("output_write_size", method_or_sharding_type, sharding_type)


def prefetch_compute(method: Formula) -> Formula:
    """The method gives, from a `ShardPerfContext`, the milliseconds in which rows that a cache lacks are fetched."""
    vars(method)["_is_custom_prefetch_compute"] = True
    return method


def fwd_coefficient(sharding_type: Kinds = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The method gives the `PerfCoefficient` of look-ups, for some values of `ShardingType` or all."""
    return _coefficient("fwd", sharding_type)


def bwd_coefficient(sharding_type: Kinds = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The method gives the `PerfCoefficient` of updates, for some values of `ShardingType` or all."""
    return _coefficient("bwd", sharding_type)


def prefetch_coefficient() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The method gives the `PrefetchCoefficients`."""

    def mark(method: Callable[..., Any]) -> Callable[..., Any]:
        vars(method)["_is_prefetch_coefficient"] = True
        return method

    return mark


def _coefficient(name: str, kinds: Kinds) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def mark(method: Callable[..., Any]) -> Callable[..., Any]:
        vars(method)[f"_is_{name}_coefficient"] = True
        vars(method)["_coefficient_sharding_type"] = kinds
        return method

    return mark


def _for(kinds: Kinds, sharding_type: str | None) -> bool:
    if kinds is None or sharding_type is None:
        return True
    return sharding_type == kinds if isinstance(kinds, str) else sharding_type in kinds


@functools.lru_cache(maxsize=512)
def _marked(kind: type, mark: str) -> tuple[str, ...]:
    """Names of a class's methods that have a mark. Estimators ask for every shard."""
    return tuple(name for name in dir(kind) if getattr(getattr(kind, name, None), mark, False))


def _find(config: Any, mark: str, sharding_type: str | None, kinds_of: str) -> Callable[..., Any] | None:
    """A method of a configuration that has a mark and is for a sharding type; of several the first by name."""
    kind: type = type(config)
    for name in _marked(kind, mark):
        method: Callable[..., Any] = getattr(config, name)
        if _for(getattr(method, kinds_of, None), sharding_type):
            return method
    return None


def get_custom_method(
    obj: Any, method_name: str, annotation_attr: str, sharding_type: str | None = None
) -> Formula | None:
    """A method of an object, if it has a mark and is for a sharding type.

    Args:
        obj: the object.
        method_name: of the method.
        annotation_attr: the mark, such as "_is_custom_fwd_comms".
        sharding_type: a value of `ShardingType`; any by default.
    """
    method = getattr(obj, method_name, None)
    if not getattr(method, annotation_attr, False):
        return None
    return method if _for(getattr(method, "_custom_sharding_type", None), sharding_type) else None


def _get(config: Any, name: str, sharding_type: str | None) -> Formula | None:
    return _find(config, f"_is_custom_{name}", sharding_type, "_custom_sharding_type")


def get_forward_compute(config: Any, sharding_type: str | None = None) -> Formula | None:
    """The method marked by `forward_compute` that is for a sharding type."""
    return _get(config, "forward_compute", sharding_type)


def get_backward_compute(config: Any, sharding_type: str | None = None) -> Formula | None:
    """The method marked by `backward_compute` that is for a sharding type."""
    return _get(config, "backward_compute", sharding_type)


def get_prefetch_compute(config: Any) -> Formula | None:
    """The method marked by `prefetch_compute`."""
    return _get(config, "prefetch_compute", None)


def get_input_dist_comms(config: Any, sharding_type: str | None = None) -> Formula | None:
    """The method marked by `input_dist_comms` that is for a sharding type."""
    return _get(config, "input_dist_comms", sharding_type)


def get_fwd_comms(config: Any, sharding_type: str | None = None) -> Formula | None:
    """The method marked by `fwd_comms` that is for a sharding type."""
    return _get(config, "fwd_comms", sharding_type)


def get_bwd_comms(config: Any, sharding_type: str | None = None) -> Formula | None:
    """The method marked by `bwd_comms` that is for a sharding type."""
    return _get(config, "bwd_comms", sharding_type)


def get_output_write_size(config: Any, sharding_type: str | None = None) -> Formula | None:
    """The method marked by `output_write_size` that is for a sharding type."""
    return _get(config, "output_write_size", sharding_type)


def get_fwd_coefficient(config: Any, sharding_type: str) -> Any | None:
    """What the method marked by `fwd_coefficient` gives that is for a sharding type."""
    method = _find(config, "_is_fwd_coefficient", sharding_type, "_coefficient_sharding_type")
    return None if method is None else method()


def get_bwd_coefficient(config: Any, sharding_type: str) -> Any | None:
    """What the method marked by `bwd_coefficient` gives that is for a sharding type."""
    method = _find(config, "_is_bwd_coefficient", sharding_type, "_coefficient_sharding_type")
    return None if method is None else method()


def get_prefetch_coefficient(config: Any) -> Any | None:
    """What the method marked by `prefetch_coefficient` gives."""
    method = _find(config, "_is_prefetch_coefficient", None, "")
    return None if method is None else method()
