"""To and from dicts, sequences, arrays, tables and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from flambeau.data.tensordict._conversion import schema as _schema
from flambeau.data.tensordict._conversion import struct_arrays as _struct_arrays
from flambeau.data.tensordict._conversion import structures as conversions
from flambeau.data.tensordict._conversion.mds import to_mds
from flambeau.data.tensordict._conversion.structures import Size
from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._nestedkey import NestedKey
from flambeau.data.tensordict._tensorcollection import CollectionMethods

# Readers of CSV and JSON are imported where they are used: `_tables`.


class ConversionMethods(CollectionMethods):
    """Other forms of the same data.

    Those that make a tensordict share arguments: `auto_batch_size` finds the longest batch size that all entries have,
    `batch_dims` limits its dimensions, `batch_size` gives it; `device` is where the tensors go.
    """

    # --- Python structures

    @classmethod
    def from_dict(
        cls,
        input_dict: Mapping[Any, Any],
        *,
        auto_batch_size: bool | None = None,
        batch_size: torch.Size | None = None,
        device: torch.device | None = None,
        batch_dims: int | None = None,
        names: list[str] | None = None,
    ) -> Any:
        """A TensorDict of a dict, whose nested dicts become TensorDicts.

        Example:
            >>> TensorDict.from_dict({"a": torch.zeros(3, 2), "b": torch.zeros(3)}, auto_batch_size=True).batch_size
            torch.Size([3])
        """
        size = Size(auto_batch_size, batch_dims, batch_size, device, names)
        return cls._of_class(conversions.from_dict(input_dict, size))

    @classmethod
    def _of_class(cls, td: Any) -> Any:
        """A new TensorDict as an instance of this class, if it is one that wraps or extends TensorDicts."""
        return td

    def from_dict_instance(
        self,
        input_dict: Mapping[Any, Any],
        *others: Any,
        auto_batch_size: bool | None = None,
        batch_size: Any = None,
        device: Any = None,
        batch_dims: int | None = None,
        names: list[str] | None = None,
    ) -> Any:
        """As `from_dict`; nested dicts become collections of the kind that this tensordict has under their keys."""
        size = Size(auto_batch_size, batch_dims, batch_size, device, names)
        return conversions.from_dict_instance(self, input_dict, size)

    @classmethod
    def from_any(
        cls,
        obj: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: torch.device | None = None,
        batch_size: torch.Size | None = None,
    ) -> Any:
        """A TensorDict of a dict, tuple, dataclass, list of dicts, structured array, data frame or HDF5 group.

        What it holds is converted likewise. Other lists become a tensor, or non-tensor data; anything else is returned
        as it is.
        """
        made = conversions.from_any(obj, Size(auto_batch_size, batch_dims, batch_size, device))
        return made if made is obj else cls._of_class(made)

    @classmethod
    def from_tuple(
        cls,
        obj: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: torch.device | None = None,
        batch_size: torch.Size | None = None,
    ) -> Any:
        """A TensorDict with the keys "0", "1", ..."""
        return conversions.from_tuple(obj, Size(auto_batch_size, batch_dims, batch_size, device))

    @classmethod
    def from_namedtuple(
        cls,
        named_tuple: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: torch.device | None = None,
        batch_size: torch.Size | None = None,
    ) -> Any:
        """A TensorDict of a named tuple's fields."""
        if not conversions.is_namedtuple(named_tuple):
            raise TypeError(f"expected a named tuple, got {type(named_tuple).__name__}.")
        return conversions.from_any(named_tuple, Size(auto_batch_size, batch_dims, batch_size, device))

    @classmethod
    def from_list(
        cls,
        input: Sequence[Any],
        *,
        auto_batch_size: bool | None = None,
        batch_size: torch.Size | None = None,
        device: torch.device | None = None,
        batch_dims: int | None = None,
        names: list[str] | None = None,
        lazy: bool | None = None,
    ) -> Any:
        """A stack of the tensordicts for a list of dicts.

        Args:
            input: dicts or tensordicts.
            auto_batch_size: see the class.
            batch_size: see the class.
            device: see the class.
            batch_dims: see the class.
            names: of the batch dimensions.
            lazy: a lazy stack, or a dense one; None makes it dense where keys and shapes agree.
        """
        return conversions.from_list(input, Size(auto_batch_size, batch_dims, batch_size, device, names), lazy=lazy)

    @classmethod
    def from_dataclass(
        cls,
        dataclass: Any,
        *,
        dest_cls: type | None = None,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        as_tensorclass: bool = False,
        device: torch.device | None = None,
        batch_size: torch.Size | None = None,
    ) -> Any:
        """A TensorDict of a dataclass instance's fields.

        Args:
            dataclass: an instance; a class makes a tensorclass of it.
            dest_cls: a tensorclass to make instead of a TensorDict.
            auto_batch_size: see the class.
            batch_dims: see the class.
            as_tensorclass: make a tensorclass with the same fields.
            device: see the class.
            batch_size: see the class.
        """
        size = Size(auto_batch_size, batch_dims, batch_size, device)
        return conversions.from_dataclass(dataclass, size, dest_cls, as_tensorclass)

    @classmethod
    def from_pytree(
        cls,
        pytree: Any,
        *,
        batch_size: torch.Size | None = None,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
    ) -> Any:
        """A TensorDict of nested dicts, lists, tuples and named tuples, which `to_pytree` restores.

        The kind of each container is kept under the key "_pytree_type".
        """
        return conversions.from_pytree(pytree, Size(auto_batch_size, batch_dims, batch_size))

    def to_pytree(self) -> Any:
        """The structure that `from_pytree` was given; the tensordict itself if it was not made so."""
        return conversions.to_pytree(self)

    @classmethod
    def fromkeys(cls, keys: list[NestedKey], value: Any = 0) -> Any:
        """A TensorDict without batch dimensions with the same value under every key."""
        return classes.TensorDict(dict.fromkeys(keys, value))

    def to_dict(
        self,
        *,
        retain_none: bool = True,
        convert_tensors: bool | Literal["numpy"] = False,
        tolist_first: bool = False,
    ) -> dict[str, Any]:
        """A dict, nested where the tensordict is; non-tensor data as their values.

        Args:
            retain_none: keep entries that are None.
            convert_tensors: tensors as lists, or with "numpy" as arrays.
            tolist_first: nested tensordicts with batch dimensions as lists of dicts.
        """
        return conversions.to_dict(self, retain_none, convert_tensors, tolist_first)

    def tolist(
        self,
        *,
        convert_nodes: bool = True,
        convert_tensors: bool | Literal["numpy"] = False,
        tolist_first: bool = False,
        as_linked_list: bool = False,
    ) -> Any:
        """A list over the batch dimensions, of dicts; a dict where there are none.

        Args:
            convert_nodes: False leaves the tensordicts at the bottom.
            convert_tensors: tensors as lists, or with "numpy" as arrays.
            tolist_first: nested tensordicts with batch dimensions as lists of dicts.
            as_linked_list: a list of which items can be assigned, which writes to the tensordict.
        """
        return conversions.tolist(self, convert_nodes, convert_tensors, tolist_first, as_linked_list)

    def to_namedtuple(self, dest_cls: type | None = None) -> Any:
        """A named tuple of the entries, nested ones too; of class `dest_cls` or one made for the keys."""
        return conversions.to_namedtuple(self, dest_cls)

    def numpy(self) -> dict[str, Any]:
        """A dict of NumPy arrays, nested where the tensordict is."""
        return conversions.to_numpy(self)

    # --- arrays

    @classmethod
    def from_struct_array(
        cls,
        struct_array: np.ndarray,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: torch.device | None = None,
        batch_size: torch.Size | None = None,
    ) -> Any:
        """A TensorDict of a structured array's fields; its batch size is the array's shape unless another is given."""
        made = _struct_arrays.from_struct_array(struct_array, device)
        return Size(auto_batch_size, batch_dims, batch_size).given_to(made)

    def to_struct_array(self) -> np.ndarray:
        """A NumPy structured array of the batch's shape, a field for each entry.

        Raises:
            TypeError: a dtype that NumPy lacks.
        """
        return _struct_arrays.to_struct_array(self)

    # --- tables

    @classmethod
    def from_json(
        cls,
        path: str | Path,
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
        """A TensorDict of a JSON file of records, a row for each; its batch size is their number.

        Args:
            path: an array of objects, an object of arrays, or with `lines` (and for `.jsonl`) an object a line.
            auto_batch_size: see the class.
            batch_dims: see the class.
            device: see the class.
            batch_size: instead of the number of rows.
            separator: names are split on it into nested keys.
            dtype: of all numeric columns; by default int64, float64 or bool.
            lines: JSON lines.
            kwargs: none are known; accepted so that calls for readers of other libraries run.

        Raises:
            ValueError: the file is no such table.
        """
        from flambeau.data.tensordict._conversion import tables as _tables

        columns, rows = _tables.read_json(path, lines=lines)
        td = _tables.td_of_columns(columns, rows, separator=separator, dtype=dtype, device=device)
        return Size(auto_batch_size, batch_dims, batch_size).given_to(td)

    def to_json(self, path: str | Path, *, separator: str | None = None, lines: bool = False, **kwargs: Any) -> None:
        """Write a JSON file of records, or with `lines` an object a line.

        Args:
            path: the file.
            separator: join nested names with it; otherwise nested entries are nested objects.
            lines: JSON lines.
            kwargs: of `json.dumps`.

        Raises:
            ValueError: there is not exactly one batch dimension.
        """
        from flambeau.data.tensordict._conversion import tables as _tables

        _tables.write_json(path, self, separator=separator, lines=lines, **kwargs)

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: torch.device | None = None,
        batch_size: torch.Size | None = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        **kwargs: Any,
    ) -> Any:
        """A TensorDict of a CSV file with a header; its batch size is the number of rows.

        A column is int64, float64, bool or, where a cell is none of them, text. Missing numbers are NaN.

        Args:
            path: the file.
            auto_batch_size: see the class.
            batch_dims: see the class.
            device: see the class.
            batch_size: instead of the number of rows.
            separator: names are split on it into nested keys.
            dtype: of all numeric columns.
            kwargs: of `csv.reader`, such as `delimiter`.

        Raises:
            ValueError: a row's length differs from the header's.
        """
        from flambeau.data.tensordict._conversion import tables as _tables

        columns, rows = _tables.read_csv(path, **kwargs)
        td = _tables.td_of_columns(columns, rows, separator=separator, dtype=dtype, device=device)
        return Size(auto_batch_size, batch_dims, batch_size).given_to(td)

    def to_csv(self, path: str | Path, *, separator: str | None = None, **kwargs: Any) -> None:
        """Write a CSV file with a header; nested names are joined with `separator`. `kwargs` are of `csv.writer`."""
        from flambeau.data.tensordict._conversion import tables as _tables

        _tables.write_csv(path, self, separator=separator, **kwargs)

    @classmethod
    def from_parquet(
        cls,
        path: str | Path,
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
        """A TensorDict of a Parquet file, read with pyarrow, else pandas; the arguments are those of `from_csv`.

        Args:
            path: the file.
            auto_batch_size: see the class.
            batch_dims: see the class.
            device: see the class.
            batch_size: instead of the number of rows.
            separator: names are split on it into nested keys.
            dtype: of all numeric columns.
            columns: only these.
            kwargs: of the reader.

        Raises:
            ImportError: neither is installed.
        """
        from flambeau.data.tensordict._conversion import tables as _tables

        values, rows = _tables.read_parquet(path, columns=columns, **kwargs)
        td = _tables.td_of_columns(values, rows, separator=separator, dtype=dtype, device=device)
        return Size(auto_batch_size, batch_dims, batch_size).given_to(td)

    def to_parquet(self, path: str | Path, *, separator: str | None = None, **kwargs: Any) -> None:
        """Write a Parquet file with pyarrow; nested entries as structs, or joined names with `separator`."""
        from flambeau.data.tensordict._conversion import tables as _tables

        _tables.write_parquet(path, self, separator=separator, **kwargs)

    @classmethod
    def from_pandas(
        cls,
        dataframe: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: torch.device | None = None,
        batch_size: torch.Size | None = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Any:
        """A TensorDict of a pandas data frame's columns; its batch size is the number of rows."""
        from flambeau.data.tensordict._conversion import tables as _tables

        columns, rows = _tables.of_pandas(dataframe)
        td = _tables.td_of_columns(columns, rows, separator=separator, dtype=dtype, device=device)
        return Size(auto_batch_size, batch_dims, batch_size).given_to(td)

    def to_pandas(self, *, separator: str | None = None) -> Any:
        """A pandas data frame; nested names are joined with `separator`.

        Raises:
            ImportError: pandas is not installed.
        """
        from flambeau.data.tensordict._conversion import tables as _tables

        return _tables.to_pandas(self, separator)

    def to_mds(
        self,
        *,
        columns: dict[str, str] | None = None,
        out: str | tuple[str, str],
        keep_local: bool = False,
        compression: str | None = None,
        hashes: list[str] | None = None,
        size_limit: int | str | None = 1 << 26,
        writer: Any = None,
        **kwargs: Any,
    ) -> None:
        """Write the rows as shards of MosaicML's streaming format, with its own writer.

        Args:
            columns: name -> encoding; by default each tensor's NumPy dtype and shape, text as "str", else "pkl".
            out: the folder, or a local and a remote one.
            keep_local: of the writer.
            compression: of the writer.
            hashes: of the writer.
            size_limit: bytes of a shard.
            writer: one that is open, instead of the others.
            kwargs: of the writer.

        Raises:
            ImportError: the package `mosaicml-streaming` is not installed.
        """
        options = {
            "out": out, "keep_local": keep_local, "compression": compression, "hashes": hashes,
            "size_limit": size_limit,
        }  # fmt: skip
        to_mds(self, columns, writer, {**options, **kwargs})

    # --- other storages

    @classmethod
    def from_h5(
        cls,
        filename: Any,
        *,
        mode: str = "r",
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        batch_size: torch.Size | None = None,
    ) -> Any:
        """A `PersistentTensorDict` over an HDF5 file, whose data are read when they are used."""
        made = classes.PersistentTensorDict.from_h5(
            filename, mode=mode, batch_size=batch_size, auto_batch_size=auto_batch_size and batch_dims is None
        )
        return Size(auto_batch_size, batch_dims).given_to(made)

    def to_h5(self, filename: Any, **kwargs: Any) -> Any:
        """Write an HDF5 file; returns the `PersistentTensorDict` over it. `kwargs` are of h5py's `create_dataset`."""
        return classes.PersistentTensorDict.from_dict(self, filename=filename, **kwargs)

    @classmethod
    def from_zarr(
        cls,
        filename: Any,
        *,
        mode: str = "r",
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        batch_size: torch.Size | None = None,
    ) -> Any:
        """A `PersistentTensorDict` over a Zarr group, whose data are read when they are used."""
        made = classes.PersistentTensorDict.from_zarr(filename, mode=mode, batch_size=batch_size)
        return Size(auto_batch_size, batch_dims).given_to(made)

    def to_zarr(self, filename: Any, **kwargs: Any) -> Any:
        """Write a Zarr group; returns the `PersistentTensorDict` over it."""
        return classes.PersistentTensorDict.from_dict(self, filename=filename, backend="zarr", **kwargs)

    def to_store(
        self,
        *,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        device: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Copy into a key-value server; returns the `TensorDictStore` there."""
        return classes.TensorDictStore.from_tensordict(
            self,
            backend=backend,
            host=host,
            port=port,
            db=db,
            unix_socket_path=unix_socket_path,
            prefix=prefix,
            device=device,
            **kwargs,
        )

    @classmethod
    def from_schema(
        cls,
        schema: Mapping[Any, tuple[Sequence[int], torch.dtype]],
        *,
        batch_size: Sequence[int] | torch.Size | None = None,
        storage: str | None = None,
        device: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Zeros for data that come later.

        Args:
            schema: key -> (shape without the batch dimensions, dtype).
            batch_size: of all entries.
            storage: None for tensors; "memmap" (with `prefix`), "shared", "h5" or "zarr" (with `filename`), or a
                server: "redis", "dragonfly", "keydb".
            device: of the tensors.
            kwargs: of the storage.

        Example:
            >>> TensorDict.from_schema({"reward": ([], torch.float32)}, batch_size=[1000])["reward"].shape
            torch.Size([1000])
        """
        return _schema.from_schema(schema, batch_size, storage, device, **kwargs)
