"""Groups of named arrays in a file, as `PersistentTensorDict` uses them: HDF5 by h5py, Zarr by zarr."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np


class Group(Protocol):
    """A group: names -> arrays or groups, and attributes."""

    def names(self) -> Iterator[str]:
        """The names, in order."""

    def get(self, name: str) -> Any:
        """The array or group of a name, None where there is none."""

    def is_group(self, item: Any) -> bool:
        """Whether an item is a group."""

    def child(self, name: str) -> Group:
        """The group of a name."""

    def around(self, item: Any) -> Group:
        """A group that `get` gave."""

    def make_group(self, name: str) -> Group:
        """A new group."""

    def make_array(self, name: str, data: Any, attributes: dict[str, Any], options: dict[str, Any]) -> None:
        """A new array, or text where the array is 0-dimensional and of text."""

    def remove(self, name: str) -> None:
        """Remove an item."""

    def put_last(self, names: list[str]) -> None:
        """Put items behind all others, in this order, where the group keeps an order."""

    def attributes(self, item: Any = None) -> dict[str, Any]:
        """The attributes of an item, or of the group."""

    def set_attributes(self, values: dict[str, Any]) -> None:
        """Set attributes of the group."""


class H5Group:
    """A group of an HDF5 file."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def names(self) -> Iterator[str]:
        """The names, in order of creation where the file keeps it."""
        return iter(self.raw.keys())

    def get(self, name: str) -> Any:
        """The dataset or group of a name, None where there is none."""
        try:
            return self.raw[name]
        except KeyError:
            return None

    def is_group(self, item: Any) -> bool:
        """Whether an item is a group."""
        import h5py

        return isinstance(item, h5py.Group)

    def child(self, name: str) -> H5Group:
        """The group of a name."""
        return H5Group(self.raw[name])

    def around(self, item: Any) -> H5Group:
        """A group that `get` gave."""
        return H5Group(item)

    def make_group(self, name: str) -> H5Group:
        """A new group, which keeps the order of creation."""
        return H5Group(self.raw.create_group(name, track_order=True))

    def make_array(self, name: str, data: Any, attributes: dict[str, Any], options: dict[str, Any]) -> None:
        """A new dataset."""
        if isinstance(data, str):
            import h5py

            made = self.raw.create_dataset(name, data=data, dtype=h5py.string_dtype())
        else:
            made = self.raw.create_dataset(name, data=data, **(options if data.ndim else {}))
        made.attrs.update(attributes)

    def remove(self, name: str) -> None:
        """Remove an item; the file does not shrink."""
        del self.raw[name]

    def put_last(self, names: list[str]) -> None:
        """Put items behind all others, in this order, where the group keeps an order: a link that is moved is new."""
        if self.raw.id.get_create_plist().get_link_creation_order():
            for name in names:
                between = f".{os.urandom(8).hex()}"
                self.raw.move(name, between)
                self.raw.move(between, name)

    def attributes(self, item: Any = None) -> dict[str, Any]:
        """The attributes of an item, or of the group."""
        import h5py

        item = self.raw if item is None else item
        # Most datasets have none, which their number tells in a tenth of the time.
        return dict(item.attrs) if h5py.h5a.get_num_attrs(item.id) else {}

    def set_attributes(self, values: dict[str, Any]) -> None:
        """Set attributes of the group."""
        self.raw.attrs.update(values)


class ZarrGroup:
    """A group of a Zarr store."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def names(self) -> Iterator[str]:
        """The names, in the order in which they were set."""
        order = self.raw.attrs.get("flambeau_order", [])
        names = set(self.raw.keys())
        return iter([name for name in order if name in names] + sorted(names - set(order)))

    def get(self, name: str) -> Any:
        """The array or group of a name, None where there is none."""
        return self.raw.get(name)

    def is_group(self, item: Any) -> bool:
        """Whether an item is a group."""
        import zarr

        return isinstance(item, zarr.Group)

    def child(self, name: str) -> ZarrGroup:
        """The group of a name."""
        return ZarrGroup(self.raw[name])

    def around(self, item: Any) -> ZarrGroup:
        """A group that `get` gave."""
        return ZarrGroup(item)

    def make_group(self, name: str) -> ZarrGroup:
        """A new group."""
        self._note(name)
        return ZarrGroup(self.raw.create_group(name))

    def make_array(self, name: str, data: Any, attributes: dict[str, Any], options: dict[str, Any]) -> None:
        """A new array, in one chunk and not compressed unless options say otherwise."""
        self._note(name)
        if isinstance(data, str):
            attributes = {**attributes, "text": data}
            data = np.zeros((), dtype=np.uint8)
        plain = {"chunks": tuple(max(1, size) for size in data.shape), "compressors": None}
        made = self.raw.create_array(name, shape=data.shape, dtype=data.dtype, **{**plain, **options})
        made[...] = data
        made.attrs.update(attributes)

    def remove(self, name: str) -> None:
        """Remove an item."""
        del self.raw[name]

    def put_last(self, names: list[str]) -> None:
        """Put items behind all others, in this order."""
        for name in names:
            self._note(name)

    def attributes(self, item: Any = None) -> dict[str, Any]:
        """The attributes of an item, or of the group."""
        return dict((self.raw if item is None else item).attrs)

    def set_attributes(self, values: dict[str, Any]) -> None:
        """Set attributes of the group."""
        self.raw.attrs.update(values)

    def _note(self, name: str) -> None:
        order = [one for one in self.raw.attrs.get("flambeau_order", []) if one != name]
        self.raw.attrs["flambeau_order"] = [*order, name]


def open_h5(filename: Any, mode: str) -> tuple[Any, H5Group]:
    """An open file and its root.

    Raises:
        ImportError: h5py is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            "HDF5 files are read with h5py, which is not installed. Run: pip install flambeau-data[h5]"
        ) from error
    file = h5py.File(filename, mode, track_order=True)
    return file, H5Group(file)


def open_zarr(store: Any, mode: Any) -> tuple[Any, ZarrGroup]:
    """An open store and its root.

    Raises:
        ImportError: zarr is not installed.
    """
    try:
        import zarr
    except ImportError as error:
        raise ImportError(
            "Zarr stores are read with zarr, which is not installed. Run: pip install flambeau-data[zarr]"
        ) from error
    root = zarr.open_group(store, mode=mode)
    return root, ZarrGroup(root)


def size_text(size: Any) -> str:
    """A batch size as the attribute that keeps it."""
    return json.dumps(list(size))
