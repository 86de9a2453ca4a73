"""`TensorDictStore`: a tensordict on a key-value server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._conversion.entries import convert
from flambeau.data.tensordict._layout.index import indexed_size
from flambeau.data.tensordict._layout.sizes import as_device, as_size
from flambeau.data.tensordict._non_tensor.data import NonTensorData
from flambeau.data.tensordict._non_tensor.stack import NonTensorStack
from flambeau.data.tensordict._stored.base import WHOLE, StoredTensorDict
from flambeau.data.tensordict._td import TensorDict
from flambeau.data.tensordict.memmap import jsonable, pickles
from flambeau.data.tensordict.store._bytes import (
    dtype_of,
    ranges_of,
    row_bytes_of,
    rows_of,
    to_bytes,
    to_tensor,
)
from flambeau.data.tensordict.store._connection import Connection, join_key, split_key


class TensorDictStore(StoredTensorDict):
    """A tensordict whose entries are values of a server: larger than memory, shared by machines.

    An entry is fetched when it is used; indexing fetches only the bytes of the selected rows. Setting an entry replaces
    it at once for everybody. What operations return is a `TensorDict` in memory.

    Args:
        backend: what the server is; all speak the same protocol.
        host: of the server.
        port: of the server.
        db: number of the database.
        unix_socket_path: of a server on this machine, instead of host and port.
        prefix: of all keys on the server.
        batch_size: of all entries; None takes what the server says of `td_id`, else no dimensions.
        device: where entries are put when they are fetched.
        client: a `redis.Redis` to use.
        td_id: of a tensordict that is there; None begins a new one.
        cache_metadata: remember shapes and dtypes, which saves an exchange with the server for each access. Switch it
            off where other processes replace entries by such of other shapes.
        redis_kwargs: of `redis.Redis`, such as password or ssl; and `must_exist`, to refuse an unknown `td_id`.

    Raises:
        ImportError: the package `redis` (extra `redis`) is not installed.
        ConnectionError: no server answers.
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
        batch_size: Any = None,
        device: Any = None,
        client: Any = None,
        td_id: str | None = None,
        cache_metadata: bool = True,
        **redis_kwargs: Any,
    ) -> None:
        must_exist = redis_kwargs.pop("must_exist", False)
        where = {"unix_socket_path": unix_socket_path} if unix_socket_path else {"host": host, "port": port}
        self._connection = Connection.open(
            prefix, td_id or str(uuid.uuid4()), client, {**where, "db": db, **redis_kwargs}
        )
        self._path: tuple[str, ...] = ()
        self._backend, self._cache_metadata = backend, cache_metadata
        self._metas: dict[str, dict[str, str]] = {}
        known = self._connection.get_json("__batch_size__")
        if must_exist and known is None:
            raise KeyError(f"the server has no tensordict {td_id!r} under prefix {prefix!r}; check both.")
        self._batch_size = as_size(known if batch_size is None else batch_size)
        self._device = None if device is None else as_device(device)
        if known is None or batch_size is not None:
            text = "" if device is None else str(self._device)
            self._connection.set_all({"__batch_size__": json.dumps(list(self._batch_size)), "__device__": text})

    def _below(self, key: str) -> TensorDictStore:
        made = type(self).__new__(type(self))
        made._connection, made._backend = self._connection, self._backend
        made._path, made._cache_metadata, made._metas = (*self._path, key), self._cache_metadata, self._metas
        made._device, made._names, made._is_locked = self._device, None, self._is_locked
        size = self._connection.client.hget(self._connection.name("__groups__"), join_key(made._path))
        made._batch_size = torch.Size(json.loads(size)) if size else self._batch_size
        return made

    # --- making

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
        tensorclass_cls: type | str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Open a tensordict that is on a server.

        Args:
            backend: see the class.
            host: see the class.
            port: see the class.
            db: see the class.
            unix_socket_path: see the class.
            prefix: see the class.
            td_id: of the tensordict.
            device: see the class.
            tensorclass_cls: a tensorclass to wrap it in.
            kwargs: see the class.

        Raises:
            KeyError: the server has none of this id.
        """
        made = cls(
            backend=backend, host=host, port=port, db=db, unix_socket_path=unix_socket_path, prefix=prefix,
            td_id=td_id, device=device, **{"must_exist": True, **kwargs},
        )  # fmt: skip
        if tensorclass_cls is None:
            return made
        return tensorclass_cls.from_tensordict(made)  # type: ignore[union-attr]

    @classmethod
    def from_tensordict(
        cls,
        td: Any,
        *,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        device: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Copy a tensordict to a server."""
        made = cls(
            backend=backend, host=host, port=port, db=db, unix_socket_path=unix_socket_path, prefix=prefix,
            batch_size=td.batch_size, device=device, **kwargs,
        )  # fmt: skip
        for key, value in td.items():
            made._set_str(key, value)
        return made

    @classmethod
    def from_dict(  # type: ignore[override]  # of a server, which the base knows nothing of
        cls,
        input_dict: Any,
        *,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        auto_batch_size: bool = False,
        batch_size: Any = None,
        device: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Copy a dict to a server."""
        source = TensorDict.from_dict(input_dict, auto_batch_size=auto_batch_size, batch_size=batch_size)
        return cls.from_tensordict(
            source, backend=backend, host=host, port=port, db=db, unix_socket_path=unix_socket_path, prefix=prefix,
            device=device, **kwargs,
        )  # fmt: skip

    @classmethod
    def from_schema(
        cls,
        schema: Mapping[Any, tuple[Sequence[int], torch.dtype]],
        *,
        batch_size: Any = None,
        backend: str = "redis",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        unix_socket_path: str | None = None,
        prefix: str = "tensordict",
        device: Any = None,
        storage: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Zeros on a server; nothing of their size is made here, or sent. See `TensorDict.from_schema`."""
        made = cls(
            backend=backend, host=host, port=port, db=db, unix_socket_path=unix_socket_path, prefix=prefix,
            batch_size=batch_size if batch_size is not None else (), device=device, **kwargs,
        )  # fmt: skip
        for key, (shape, dtype) in schema.items():
            path = (key,) if isinstance(key, str) else tuple(key)
            holder = made
            for name in path[:-1]:
                holder = holder._below(name) if holder._kind(name) is not None else holder._make_group(name)
            holder._allocate(path[-1], torch.Size((*made._batch_size, *shape)), dtype)
        return made

    def _allocate(self, key: str, shape: torch.Size, dtype: torch.dtype) -> None:
        full = join_key((*self._path, key))
        meta = self._tensor_meta(shape, dtype)
        self._connection.put(full, meta, {"": b""})
        if nbytes := shape.numel() * dtype.itemsize:
            self._connection.set_rows(full, [(nbytes - 1, b"\0")])  # the server fills up with zeros
        self._metas[full] = meta

    # --- primitives

    def _key_names(self) -> Iterator[str]:
        depth = len(self._path)
        groups = self._connection.client.hkeys(self._connection.name("__groups__"))
        paths = [split_key(key) for key in self._connection.members()]
        paths += [split_key(key.decode()) for key in groups]
        below = [path for path in paths if path[:depth] == self._path and len(path) > depth]
        first: dict[str, tuple[int, str]] = {}
        order = self._order()
        for path in below:
            rank = (order.get(join_key(path), 1 << 62), path[depth])
            first[path[depth]] = min(rank, first.get(path[depth], rank))
        return iter(sorted(first, key=lambda name: first[name]))

    def _order(self) -> dict[str, int]:
        """When each entry was made; a server's sets have no order."""
        found = self._connection.client.zrange(self._connection.name("__order__"), 0, -1, withscores=True)
        return {key.decode(): int(score) for key, score in found}

    def _meta(self, key: str) -> dict[str, str]:
        full = join_key((*self._path, key))
        meta = self._metas.get(full) if self._cache_metadata else None
        if meta is None:
            meta = self._connection.meta(full)
            if meta:
                self._metas[full] = meta
        return meta

    def _kind(self, key: str) -> type | None:
        meta = self._meta(key)
        if "is_non_tensor" in meta:
            return NonTensorStack if "stack_ndim" in meta else NonTensorData
        if meta:
            return Tensor
        start = f"{join_key((*self._path, key))}"
        if self._connection.client.hexists(self._connection.name("__groups__"), start):
            return TensorDictStore
        return TensorDictStore if any(one.startswith(f"{start}.") for one in self._connection.members()) else None

    def _child(self, key: str) -> TensorDictStore:
        return self._below(key)

    def _shape(self, key: str) -> torch.Size:
        return torch.Size(json.loads(self._meta(key)["shape"]))

    def _read(self, key: str, index: Any) -> Any:
        meta, full = self._meta(key), join_key((*self._path, key))
        if "is_non_tensor" in meta:
            value = self._value(full, meta)
            return value if index is WHOLE else value[index]
        shape, dtype = torch.Size(json.loads(meta["shape"])), dtype_of(meta["dtype"])
        if index is not WHOLE:
            part = self._read_rows(full, shape, dtype, index)
            if part is not None:
                return part
        data = self._connection.client.get(self._connection.name("d", full))
        whole = to_tensor(data or b"", shape, dtype)
        return whole if index is WHOLE else whole[index]

    def _read_rows(self, full: str, shape: torch.Size, dtype: torch.dtype, index: Any) -> Tensor | None:
        touched = rows_of(shape, index)
        ranges = None if touched is None else ranges_of(touched[0], row_bytes_of(shape, dtype))
        if touched is None or ranges is None:
            return None
        rows, rest = touched
        data = b"".join(self._connection.rows(full, ranges)) if ranges else b""
        return to_tensor(data, (len(rows), *shape[1:]), dtype)[rest]

    def _value(self, full: str, meta: dict[str, str]) -> Any:
        data = self._connection.client.get(self._connection.name("d", full))
        if meta["encoding"] == "json":
            value = json.loads(data)
        else:
            value = pickles.loads(data, where=self._connection.name("d", full))
        if "stack_ndim" in meta:
            return NonTensorStack._from_nested(value, self._device, int(meta["stack_ndim"]))
        return NonTensorData._make(value, self._batch_size, self._device)

    def _write(self, key: str, value: Any, index: Any) -> None:
        full = join_key((*self._path, key))
        if index is not WHOLE:
            self._write_part(key, full, value, index)
            return
        if isinstance(value, Tensor):
            meta: dict[str, str] = self._tensor_meta(value.shape, value.dtype)
            data: Any = to_bytes(value)
        else:
            meta, data = _value_meta(value)
        self._connection.put(full, meta, {"": data})
        self._note(full)
        self._metas[full] = meta

    @staticmethod
    def _tensor_meta(shape: torch.Size, dtype: torch.dtype) -> dict[str, str]:
        return {"shape": json.dumps(list(shape)), "dtype": str(dtype)}

    def _note(self, full: str) -> None:
        client, name = self._connection.client, self._connection.name
        client.zadd(name("__order__"), {full: client.incr(name("__count__made__"))}, nx=True)

    def _write_part(self, key: str, full: str, value: Any, index: Any) -> None:
        meta = self._meta(key)
        if "is_non_tensor" in meta:
            self._write(key, self._value(full, meta)._with_item(index, value), WHOLE)
            return
        shape, dtype = torch.Size(json.loads(meta["shape"])), dtype_of(meta["dtype"])
        value = convert(value, torch.Size(()), None).to(dtype).expand(indexed_size(shape, index))
        touched = rows_of(shape, index)
        row_bytes = row_bytes_of(shape, dtype)
        if touched is None:
            whole = self._read(key, WHOLE)
            whole[index] = value
            self._connection.set_rows(full, [(0, to_bytes(whole))])
            return
        rows, rest = list(touched[0]), touched[1]
        if not rows:
            return
        if len(rest) == 1 and not isinstance(rest[0], Tensor):
            block = value.reshape(len(rows), *shape[1:])
        else:
            block = self._read_rows(full, shape, dtype, torch.tensor(rows))
            block = self._read(key, WHOLE)[rows] if block is None else block
            block[rest] = value
        self._connection.set_rows(
            full, [(row * row_bytes, to_bytes(part)) for row, part in zip(rows, block, strict=True)]
        )

    def _make_group(self, key: str) -> TensorDictStore:
        full = join_key((*self._path, key))
        self._connection.client.hset(self._connection.name("__groups__"), full, json.dumps(list(self._batch_size)))
        self._note(full)
        return self._below(key)

    def _set_group(self, key: str, value: Any, kind: type | None) -> None:
        super()._set_group(key, value, kind)
        full = join_key((*self._path, key))
        self._connection.client.hset(self._connection.name("__groups__"), full, json.dumps(list(value.batch_size)))

    def _remove(self, key: str) -> None:
        full = join_key((*self._path, key))
        name = self._connection.name
        groups = [one.decode() for one in self._connection.client.hkeys(name("__groups__"))]
        members = [one for one in self._connection.members() if one == full or one.startswith(f"{full}.")]
        self._connection.remove(members)
        gone = [one for one in groups if one == full or one.startswith(f"{full}.")]
        if gone:
            self._connection.client.hdel(name("__groups__"), *gone)
        self._connection.client.zrem(name("__order__"), full, *members, *gone)
        for one in members:
            self._metas.pop(one, None)

    def _remember_size(self) -> None:
        text = json.dumps(list(self._batch_size))
        if self._path:
            self._connection.client.hset(self._connection.name("__groups__"), join_key(self._path), text)
        else:
            self._connection.set_all({"__batch_size__": text})

    # --- the server

    @property
    def td_id(self) -> str:
        """The name under which `from_store` finds this tensordict."""
        return self._connection.td_id

    def to_local(self) -> Any:
        """All entries, fetched into a `TensorDict`."""
        return self.to_tensordict()

    def clear_redis(self) -> None:
        """Remove everything of this tensordict from the server."""
        self._connection.clear()
        self._metas.clear()

    def close(self) -> None:
        """Close the connection; the entries stay on the server."""
        self._connection.client.close()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n    keys={list(self._key_names())},\n    batch_size={self._batch_size},\n"
            f"    device={self._device},\n    backend={self._backend!r},\n    td_id={self.td_id!r})"
        )


def _value_meta(value: Any) -> tuple[dict[str, str], bytes]:
    """What a non-tensor entry is, and its data."""
    stack = type(value).__name__ == "NonTensorStack"
    data = value.tolist() if stack else value.data
    meta = {"is_non_tensor": "1", **({"stack_ndim": str(len(value.batch_size))} if stack else {})}
    if jsonable.is_plain(data):
        return {**meta, "encoding": "json"}, jsonable.dumps(data)
    return {**meta, "encoding": "pickle"}, pickles.dumps(data)
