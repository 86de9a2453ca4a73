"""Functions that make tensordicts of other things: each the class method of `TensorDict` by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from flambeau.data.tensordict._layout import classes

__all__ = [
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
]


def _td() -> Any:
    return classes.TensorDict


def from_any(
    obj: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: torch.device | None = None,
    batch_size: torch.Size | None = None,
) -> Any:
    """A TensorDict of a structure of Python objects; see `TensorDict.from_any`."""
    return _td().from_any(
        obj, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device, batch_size=batch_size
    )


def from_dict(
    d: Mapping[Any, Any],
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: torch.device | None = None,
    batch_size: torch.Size | None = None,
) -> Any:
    """A TensorDict of a dict; see `TensorDict.from_dict`."""
    return _td().from_dict(
        d, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device, batch_size=batch_size
    )


def from_namedtuple(
    named_tuple: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: torch.device | None = None,
    batch_size: torch.Size | None = None,
) -> Any:
    """A TensorDict of a named tuple; see `TensorDict.from_namedtuple`."""
    return _td().from_namedtuple(
        named_tuple, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device, batch_size=batch_size
    )


def from_struct_array(
    struct_array: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: torch.device | None = None,
    batch_size: torch.Size | None = None,
) -> Any:
    """A TensorDict of a NumPy structured array; see `TensorDict.from_struct_array`."""
    return _td().from_struct_array(
        struct_array, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device, batch_size=batch_size
    )


def from_tuple(
    obj: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: torch.device | None = None,
    batch_size: torch.Size | None = None,
) -> Any:
    """A TensorDict with the keys "0", "1", ...; see `TensorDict.from_tuple`."""
    return _td().from_tuple(
        obj, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device, batch_size=batch_size
    )


def from_csv(
    path: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: torch.device | None = None,
    batch_size: torch.Size | None = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
    **kwargs: Any,
) -> Any:
    """A TensorDict of a CSV file; see `TensorDict.from_csv`."""
    return _td().from_csv(
        path,
        auto_batch_size=auto_batch_size,
        batch_dims=batch_dims,
        device=device,
        batch_size=batch_size,
        separator=separator,
        dtype=dtype,
        **kwargs,
    )


def from_json(
    path: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: torch.device | None = None,
    batch_size: torch.Size | None = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
    lines: bool = False,
    **kwargs: Any,
) -> Any:
    """A TensorDict of a JSON file of records; see `TensorDict.from_json`."""
    return _td().from_json(
        path,
        auto_batch_size=auto_batch_size,
        batch_dims=batch_dims,
        device=device,
        batch_size=batch_size,
        separator=separator,
        dtype=dtype,
        lines=lines,
        **kwargs,
    )


def from_parquet(
    path: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: torch.device | None = None,
    batch_size: torch.Size | None = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
    columns: list[str] | None = None,
    **kwargs: Any,
) -> Any:
    """A TensorDict of a Parquet file; see `TensorDict.from_parquet`."""
    return _td().from_parquet(
        path,
        auto_batch_size=auto_batch_size,
        batch_dims=batch_dims,
        device=device,
        batch_size=batch_size,
        separator=separator,
        dtype=dtype,
        columns=columns,
        **kwargs,
    )


def from_pandas(
    dataframe: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: torch.device | None = None,
    batch_size: torch.Size | None = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
) -> Any:
    """A TensorDict of a pandas data frame; see `TensorDict.from_pandas`."""
    return _td().from_pandas(
        dataframe,
        auto_batch_size=auto_batch_size,
        batch_dims=batch_dims,
        device=device,
        batch_size=batch_size,
        separator=separator,
        dtype=dtype,
    )


def from_h5(
    h5_file: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: torch.device | None = None,
    batch_size: torch.Size | None = None,
) -> Any:
    """A tensordict over an HDF5 file or group; see `TensorDict.from_h5`."""
    made = _td().from_h5(h5_file, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size)
    return made if device is None else made.to(device)


def from_zarr(
    zarr_file: Any,
    *,
    mode: str = "r",
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: torch.Size | None = None,
) -> Any:
    """A tensordict over a Zarr group; see `TensorDict.from_zarr`."""
    return _td().from_zarr(
        zarr_file, mode=mode, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size
    )


def from_list(
    input: Sequence[Any],
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: torch.device | None = None,
    batch_size: torch.Size | None = None,
    cls: type | None = None,
    lazy_stack: bool | None = None,
) -> Any:
    """A stack of tensordicts for a list of dicts; see `TensorDict.from_list`.

    Args:
        input: dicts or tensordicts.
        auto_batch_size: find the batch size.
        batch_dims: at most so many batch dimensions.
        device: of the tensors.
        batch_size: of the result.
        cls: the class whose method makes it; by default TensorDict.
        lazy_stack: lazy or dense; None makes it dense where keys and shapes agree.
    """
    made_by: Any = cls or _td()
    return made_by.from_list(
        input,
        auto_batch_size=auto_batch_size,
        batch_dims=batch_dims,
        device=device,
        batch_size=batch_size,
        lazy=lazy_stack,
    )
