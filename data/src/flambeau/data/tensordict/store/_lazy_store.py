"""`LazyStackedTensorDictStore`: a stack of tensordicts of differing shapes on a key-value server.

The elements of each key lie one after the other in one value; where their shapes differ, a table of offsets (int64)
stands beside it. So an element is one range of bytes, however many there are.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict._layout.index import normal_index
from flambeau.data.tensordict._layout.keys import _unravel_key_to_tuple
from flambeau.data.tensordict._layout.sizes import as_device
from flambeau.data.tensordict._lazy import LazyStackedTensorDict
from flambeau.data.tensordict._non_tensor.stack import NonTensorStack
from flambeau.data.tensordict._stored.base import StoredTensorDict
from flambeau.data.tensordict._td import TensorDict, make_td
from flambeau.data.tensordict.memmap import jsonable, pickles
from flambeau.data.tensordict.store._bytes import dtype_of, to_bytes, to_tensor
from flambeau.data.tensordict.store._connection import Connection, join_key, split_key


class LazyStackedTensorDictStore(StoredTensorDict):
    """A lazy stack whose elements are fetched one by one, as they are indexed.

    Args:
        backend: see `TensorDictStore`, as the other arguments that are not listed.
        host: of the server.
        port: of the server.
        db: number of the database.
        unix_socket_path: of a server on this machine.
        prefix: of all keys on the server.
        count: number of elements.
        stack_dim: the dimension that they lie along.
        inner_batch_size: of each element.
        device: where entries are put when they are fetched.
        client: a `redis.Redis` to use.
        td_id: of a stack that is there.
        cache_metadata: remember shapes and dtypes.
        redis_kwargs: of `redis.Redis`.
    """

    def __init__(
        self,
        *,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        count: int,
        stack_dim: int = 0,
        inner_batch_size: Sequence[int],
        device: Any = None,
        client: Any = None,
        td_id: str | None = None,
        cache_metadata: bool = True,
        **redis_kwargs: Any,
    ) -> None:
        where = {"unix_socket_path": unix_socket_path} if unix_socket_path else {"host": host, "port": port}
        self._connection = Connection.open(
            prefix, td_id or str(uuid.uuid4()), client, {**where, "db": db, **redis_kwargs}
        )
        inner = torch.Size(inner_batch_size)
        stack_dim %= len(inner) + 1
        self._backend, self._count, self.stack_dim, self._inner = backend, count, stack_dim, inner
        self._batch_size = torch.Size((*inner[:stack_dim], count, *inner[stack_dim:]))
        self._device = None if device is None else as_device(device)
        self._cache_metadata, self._metas = cache_metadata, dict[str, dict[str, str]]()
        self._connection.set_all(
            {
                "__type__": "lazy_stack",
                "__count__": str(count),
                "__stack_dim__": str(stack_dim),
                "__inner_batch_size__": json.dumps(list(inner)),
                "__device__": "" if device is None else str(self._device),
            }
        )

    # --- making

    @classmethod
    def from_lazy_stack(
        cls,
        lazy_td: Any,
        *,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        device: Any = None,
        **kwargs: Any,
    ) -> LazyStackedTensorDictStore:
        """Copy a lazy stack to a server; keys that not all elements have are left out.

        Raises:
            ValueError: the stack is empty.
        """
        parts = lazy_td.tensordicts
        if not parts:
            raise ValueError("an empty stack has neither keys nor a batch size; nothing was stored.")
        made = cls(
            backend=backend, host=host, port=port, db=db, unix_socket_path=unix_socket_path, prefix=prefix,
            count=len(parts), stack_dim=lazy_td.stack_dim, inner_batch_size=parts[0].batch_size, device=device,
            **kwargs,
        )  # fmt: skip
        for path in _shared_paths(parts):
            made._put(path, [_at(part, path) for part in parts])
        return made

    @classmethod
    def from_store(
        cls,
        *,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        td_id: str,
        device: Any = None,
        **kwargs: Any,
    ) -> LazyStackedTensorDictStore:
        """Open a stack that is on a server.

        Raises:
            KeyError: the server has none of this id.
        """
        where = {"unix_socket_path": unix_socket_path} if unix_socket_path else {"host": host, "port": port}
        known = Connection.open(prefix, td_id, kwargs.get("client"), {**where, "db": db})
        count = known.get_json("__count__")
        if count is None:
            raise KeyError(f"the server has no stack {td_id!r} under prefix {prefix!r}; check both.")
        return cls(
            backend=backend, host=host, port=port, db=db, unix_socket_path=unix_socket_path, prefix=prefix,
            count=count, stack_dim=known.get_json("__stack_dim__", 0),
            inner_batch_size=known.get_json("__inner_batch_size__", []), device=device, td_id=td_id, **kwargs,
        )  # fmt: skip

    def _put(self, path: tuple[str, ...], values: list[Any]) -> None:
        key = join_key(path)
        if not isinstance(values[0], Tensor):
            plain = [value.tolist() if value._is_non_tensor else value for value in values]
            encoding = "json" if jsonable.is_plain(plain) else "pickle"
            data = jsonable.dumps(plain) if encoding == "json" else pickles.dumps(plain)
            meta = {"is_non_tensor": "1", "encoding": encoding}
            self._connection.put(key, meta, {"": data})
        else:
            meta, blobs = _stacked(values)
            self._connection.put(key, meta, blobs)
        self._metas[key] = meta

    # --- primitives

    def _paths(self) -> list[tuple[str, ...]]:
        return sorted(split_key(key) for key in self._connection.members())

    def _key_names(self) -> Iterator[str]:
        return iter(dict.fromkeys(path[0] for path in self._paths()))

    def _kind(self, key: str) -> type | None:
        below = [path for path in self._paths() if path[0] == key]
        if not below:
            return None
        if below != [(key,)]:
            return LazyStackedTensorDict
        return NonTensorStack if "is_non_tensor" in self._meta(key) else Tensor

    def _meta(self, key: str) -> dict[str, str]:
        meta = self._metas.get(key) if self._cache_metadata else None
        if meta is None:
            meta = self._metas[key] = self._connection.meta(key)
        return meta

    def _child(self, key: str) -> Any:
        return self.to_local()._get_str(key)

    def _get_str(self, key: str, default: Any = None, **kwargs: Any) -> Any:
        if self._kind(key) is None:
            return default
        return self._local(range(self._count), key)._get_str(key, **kwargs)

    def _index(self, index: Any) -> Any:
        index = normal_index(index, len(self._batch_size))
        parts = index if isinstance(index, tuple) else (index,)
        if self.stack_dim == 0 and len(parts) == 1:
            first = parts[0]
            if type(first) is int:
                return self._element(first % self._count)
            if isinstance(first, slice):
                return self._local(range(*first.indices(self._count)))
        return self.to_local()[index]

    def _set_index(self, index: Any, value: Any) -> None:
        if type(index) is not int or self.stack_dim != 0:
            local = self.to_local()
            local[index] = value
            self._replace(local.tensordicts)
            return
        index %= self._count
        for path in self._paths():
            item = _at(value, path)
            if item is None:
                continue
            meta, key = self._meta(join_key(path)), join_key(path)
            start, _, shape = self._place(meta, key, index)
            same = isinstance(item, Tensor) and tuple(item.shape) == tuple(shape) and str(item.dtype) == meta["dtype"]
            if same:
                self._connection.set_rows(key, [(start, to_bytes(item))])
            else:
                parts = [_at(self._element(at), path) for at in range(self._count)]
                parts[index] = item
                self._put(path, parts)

    def __setitem__(self, index: Any, value: Any) -> None:
        path = _unravel_key_to_tuple(index)
        if path:
            self._set_path(path, value)
        else:
            self._set_index(index, value)

    def _set_path(self, path: tuple[str, ...], value: Any, **options: Any) -> None:
        local = self.to_local()
        local._set_path(path, value)
        self._put(path, [_at(part, path) for part in local.tensordicts])

    def _set_str(self, key: str, value: Any, **options: Any) -> None:
        self._set_path((key,), value)

    def _remove(self, key: str) -> None:
        gone = [join_key(path) for path in self._paths() if path[0] == key]
        self._connection.remove(gone)
        for one in gone:
            self._metas.pop(one, None)

    def _replace(self, parts: Sequence[Any]) -> None:
        for path in _shared_paths(parts):
            self._put(path, [_at(part, path) for part in parts])

    def _written_back(self, local: Any) -> Any:
        self._replace(local.tensordicts if hasattr(local, "tensordicts") else local.unbind(self.stack_dim))
        return self

    # --- elements

    def _place(self, meta: dict[str, str], key: str, index: int) -> tuple[int, int, list[int]]:
        """First byte, the one behind the last, and shape of an element."""
        dtype = dtype_of(meta["dtype"])
        if meta.get("homogeneous") == "1":
            shape = json.loads(meta["shape"])[1:]
            nbytes = torch.Size(shape).numel() * dtype.itemsize
            return index * nbytes, (index + 1) * nbytes, shape
        table = self._connection.client.getrange(self._connection.name("d", key) + ":idx", index * 8, index * 8 + 15)
        start, stop = to_tensor(table, (2,), torch.int64).tolist()
        return start, stop, json.loads(meta["shapes"])[index]

    def _element(self, index: int, only: str | None = None) -> Any:
        """One element as a TensorDict; only the entries of a key if one is given."""
        td: TensorDict = make_td({}, self._inner, self._device)
        for path in self._paths():
            if only is not None and path[0] != only:
                continue
            key = join_key(path)
            meta = self._meta(key)
            if "is_non_tensor" in meta:
                td.set_non_tensor(path, self._values(key, meta)[index])
                continue
            start, stop, shape = self._place(meta, key, index)
            data = self._connection.rows(key, [(start, stop)])[0] if stop > start else b""
            td.set(path, to_tensor(data, shape, dtype_of(meta["dtype"])))
        return td

    def _values(self, key: str, meta: dict[str, str]) -> list[Any]:
        data = self._connection.client.get(self._connection.name("d", key))
        values = json.loads(data) if meta["encoding"] == "json" else pickles.loads(data, where=key)
        return list(values)

    def _local(self, indices: Sequence[int], only: str | None = None) -> Any:
        return LazyStackedTensorDict(*[self._element(index, only) for index in indices], stack_dim=self.stack_dim)

    def to_local(self) -> Any:
        """All elements, fetched into a `LazyStackedTensorDict`."""
        return self._local(range(self._count))

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        """All elements, fetched into a `LazyStackedTensorDict`."""
        return self.to_local()

    def memmap(self, *args: Any, **kwargs: Any) -> Any:
        """A memory-mapped copy of all elements; see `TensorDictBase.memmap`."""
        return self.to_local().memmap(*args, **kwargs)

    @property
    def td_id(self) -> str:
        """The name under which `from_store` finds this stack."""
        return self._connection.td_id

    def clear_redis(self) -> None:
        """Remove everything of this stack from the server."""
        self._connection.clear()
        self._metas.clear()

    def close(self) -> None:
        """Close the connection; the elements stay on the server."""
        self._connection.client.close()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n    keys={list(self._key_names())},\n    batch_size={self._batch_size},\n"
            f"    count={self._count},\n    stack_dim={self.stack_dim},\n    device={self._device},\n"
            f"    backend={self._backend!r},\n    td_id={self.td_id!r})"
        )


def _stacked(values: list[Tensor]) -> tuple[dict[str, str], dict[str, Any]]:
    """What the tensors of a key are, and their bytes, with a table of offsets where shapes differ."""
    data = b"".join(bytes(to_bytes(value)) if value.numel() else b"" for value in values)
    shapes = [list(value.shape) for value in values]
    meta = {"shape": json.dumps([len(values), *shapes[0]]), "dtype": str(values[0].dtype)}
    if all(shape == shapes[0] for shape in shapes):
        return {**meta, "homogeneous": "1"}, {"": data}
    ends = torch.tensor([0, *(value.numel() * value.element_size() for value in values)]).cumsum(0)
    return {**meta, "homogeneous": "0", "shapes": json.dumps(shapes)}, {"": data, ":idx": to_bytes(ends)}


def _shared_paths(parts: Sequence[Any]) -> list[tuple[str, ...]]:
    """The paths of the leaves and values that all elements have."""
    found = [_paths_of(part) for part in parts]
    return [path for path in found[0] if all(path in other for other in found[1:])]


def _paths_of(td: Any) -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = []
    for key, value in td.items():
        if isinstance(value, Tensor) or value._is_non_tensor:
            paths.append((key,))
        else:
            paths += [(key, *below) for below in _paths_of(value)]
    return paths


def _at(td: Any, path: tuple[str, ...]) -> Any:
    return td._get_path(path)
