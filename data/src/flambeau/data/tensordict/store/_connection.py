"""The server's side of a stored tensordict: names of keys, and the commands that are sent.

::

    <prefix>:{<id>}:__keys__          set of entries, nested keys joined with dots
    <prefix>:{<id>}:__batch_size__    JSON;  __device__  text
    <prefix>:{<id>}:m:<key>           hash: shape and dtype of a tensor, or is_non_tensor and encoding
    <prefix>:{<id>}:d:<key>           a tensor's elements, row-major; or the JSON or pickle of another value

The braces keep all keys of one tensordict on one node of a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

STORE_BACKENDS = Literal["redis", "dragonfly", "keydb", "valkey"]


class Connection:
    """A client and the names of one tensordict's keys.

    Args:
        client: of the package `redis`, synchronous.
        prefix: of all keys.
        td_id: of the tensordict.
    """

    def __init__(self, client: Any, prefix: str, td_id: str, address: dict[str, Any]) -> None:
        self.client, self.prefix, self.td_id, self.address = client, prefix, td_id, address
        self.root = f"{prefix}:{{{td_id}}}"

    @classmethod
    def open(cls, prefix: str, td_id: str, client: Any, address: dict[str, Any]) -> Connection:
        """Connect, and see that somebody answers.

        Raises:
            ImportError: the package `redis` is not installed.
            ConnectionError: no server answers at the address.
        """
        try:
            import redis
        except ImportError as error:
            raise ImportError(
                "key-value servers are reached with the package redis, which is not installed. "
                "Run: pip install flambeau-data[redis]"
            ) from error
        if client is None:
            client = redis.Redis(**{name: value for name, value in address.items() if value is not None})
            try:
                client.ping()
            except redis.ConnectionError as error:
                where = address.get("unix_socket_path") or f"{address.get('host')}:{address.get('port')}"
                raise ConnectionError(
                    f"no key-value server answers at {where} ({error}); start one, such as `redis-server`, or correct "
                    "host and port."
                ) from error
        return cls(client, prefix, td_id, address)

    def name(self, *parts: str) -> str:
        """A key of this tensordict."""
        return ":".join((self.root, *parts))

    def get_json(self, part: str, default: Any = None) -> Any:
        """A value that is kept as JSON."""
        text = self.client.get(self.name(part))
        return default if not text else json.loads(text)

    def set_all(self, values: dict[str, Any]) -> None:
        """Set several values at once."""
        self.client.mset({self.name(part): value for part, value in values.items()})

    def members(self) -> list[str]:
        """The entries' keys."""
        return [item.decode() for item in self.client.smembers(self.name("__keys__"))]

    def meta(self, key: str) -> dict[str, str]:
        """What an entry is; empty where there is none."""
        return {name.decode(): value.decode() for name, value in self.client.hgetall(self.name("m", key)).items()}

    def put(self, key: str, meta: dict[str, str], blobs: dict[str, Any]) -> None:
        """Replace an entry, all of it or nothing.

        Args:
            key: of the entry.
            meta: what it is.
            blobs: suffix of the data's key -> bytes.
        """
        with self.client.pipeline(transaction=True) as pipe:
            pipe.delete(self.name("m", key), self.name("d", key))
            pipe.hset(self.name("m", key), mapping=meta)
            for suffix, data in blobs.items():
                pipe.set(self.name("d", key) + suffix, bytes(data))
            pipe.sadd(self.name("__keys__"), key)
            pipe.execute()

    def remove(self, keys: Iterable[str]) -> None:
        """Remove entries."""
        with self.client.pipeline(transaction=True) as pipe:
            for key in keys:
                pipe.delete(self.name("m", key), self.name("d", key), self.name("d", key) + ":idx")
                pipe.srem(self.name("__keys__"), key)
            pipe.execute()

    def rows(self, key: str, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Pieces of an entry's data, each from a first to behind a last byte, in one exchange."""
        with self.client.pipeline(transaction=False) as pipe:
            for start, stop in ranges:
                pipe.getrange(self.name("d", key), start, stop - 1)
            return pipe.execute()

    def set_rows(self, key: str, pieces: list[tuple[int, Any]]) -> None:
        """Overwrite pieces of an entry's data, all or none."""
        with self.client.pipeline(transaction=True) as pipe:
            for start, data in pieces:
                pipe.setrange(self.name("d", key), start, bytes(data))
            pipe.execute()

    def clear(self) -> None:
        """Remove everything of this tensordict from the server."""
        names = list(self.client.scan_iter(match=self.root.replace("[", r"\[") + ":*", count=1000))
        if names:
            self.client.delete(*names)

    def __getstate__(self) -> dict[str, Any]:
        return {"prefix": self.prefix, "td_id": self.td_id, "address": self.address}

    def __setstate__(self, state: dict[str, Any]) -> None:
        other = Connection.open(state["prefix"], state["td_id"], None, state["address"])
        self.__dict__.update(other.__dict__)


def join_key(path: Iterable[str]) -> str:
    """A nested key as the server's side knows it."""
    return ".".join(part.replace("%", "%25").replace(".", "%2E") for part in path)


def split_key(key: str) -> tuple[str, ...]:
    """Undo `join_key`."""
    return tuple(part.replace("%2E", ".").replace("%25", "%") for part in key.split("."))
