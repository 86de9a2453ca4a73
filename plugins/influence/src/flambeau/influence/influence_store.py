"""Vectors of training examples in a folder: computed once, on several machines, and searched without loading them.

A store has a header, `store.json`, and shards of consecutive examples, which are mapped into memory when they are read.
A shard is there whole or not at all, so that a run that was cut off goes on with the first shard that is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from flambeau.core.files import write_atomic
from flambeau.influence.errors import InfluenceError, StoreError

__all__ = ["InfluenceStore"]

_VERSION = 1
# What a number is stored as, and what the largest of a row becomes.
_DTYPES = {"float32": (torch.float32, 1.0), "float16": (torch.float16, 1.0), "int8": (torch.int8, 127.0)}
# Each row begins with its scale, a float32.
_SCALE = 4


class InfluenceStore:
    """One vector for each training example, on disk.

    Rows are scaled by their largest number, so that float16 neither overflows nor vanishes, and int8 keeps two digits.

    Args:
        folder: made where it is not there; one that holds a store is continued.
        examples: how many there are; None takes what the store has.
        numbers: of a vector; None takes what the store has.
        dtype: "float32", "float16" or "int8".
        shard: examples of a shard.
        about: what the vectors are of (method, checkpoints, seed), as JSON; a store of something else is refused.

    Raises:
        StoreError: the folder holds another store, none and the sizes are not given, or a header that is damaged.

    Example:
        >>> import tempfile
        >>> store = InfluenceStore(tempfile.mkdtemp(), examples=3, numbers=2, shard=2)
        >>> store.write(0, torch.eye(2))
        >>> store.missing()
        [1]
    """

    def __init__(
        self,
        folder: str | Path,
        examples: int | None = None,
        numbers: int | None = None,
        *,
        dtype: str = "float16",
        shard: int = 4096,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = Path(folder)
        path = self.folder / "store.json"
        if examples is None or numbers is None:
            header = _read(path)
        else:
            if dtype not in _DTYPES:
                raise StoreError(f"dtype is {dtype!r}, expected one of {', '.join(_DTYPES)}.")
            header = {
                "version": _VERSION, "examples": examples, "numbers": numbers, "dtype": dtype, "shard": shard,
                "about": json.loads(json.dumps(dict(about or {}))),
            }  # fmt: skip
            _require_header(header, path)
            if path.exists():
                _require_same(_read(path), header, self.folder)
            else:
                self.folder.mkdir(parents=True, exist_ok=True)
                write_atomic(path, json.dumps(header, indent=1))
        self.examples, self.numbers, self.shard = (int(header[name]) for name in ("examples", "numbers", "shard"))
        self.dtype, self.about = header["dtype"], header["about"]
        self._dtype, self._largest = _DTYPES[self.dtype]
        self._row = _SCALE + self.numbers * self._dtype.itemsize

    @property
    def shards(self) -> int:
        """How many shards there are when it is complete."""
        return -(-self.examples // self.shard)

    def __len__(self) -> int:
        return self.examples

    def span(self, number: int) -> range:
        """The examples of a shard."""
        if not 0 <= number < self.shards:
            raise StoreError(f"{self.folder} has {self.shards} shards; there is no {number}.")
        return range(number * self.shard, min((number + 1) * self.shard, self.examples))

    def missing(self, rank: int = 0, world_size: int = 1) -> list[int]:
        """Shards that are not there yet; of them, of `world_size` processes, those of one."""
        mine = range(rank, self.shards, world_size)
        return [number for number in mine if not self._path(number).is_file()]

    def write(self, number: int, rows: Tensor) -> None:
        """Write a shard, whole or not at all.

        Args:
            number: of the shard.
            rows: its vectors (examples, numbers), finite.
        """
        expected = (len(self.span(number)), self.numbers)
        if tuple(rows.shape) != expected:
            raise StoreError(f"Shard {number} of {self.folder} takes {expected}, got {tuple(rows.shape)}.")
        rows = rows.detach().cpu().float()
        if not rows.isfinite().all():
            raise StoreError(f"The vectors of shard {number} have numbers that are not finite.")
        scales = rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
        scaled = rows / scales * self._largest
        stored = (scaled.round() if self._dtype is torch.int8 else scaled).to(self._dtype)
        parts = [(scales / self._largest).view(torch.uint8), stored.view(torch.uint8)]
        write_atomic(self._path(number), bytes(torch.cat(parts, dim=1).flatten().untyped_storage()))

    def fill(
        self,
        embed: Callable[[DataLoader[Any]], Tensor],
        dataset: Dataset[Any],
        batch_size: int = 64,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        """Compute and write the shards that are missing.

        Args:
            embed: gives the vectors of a loader's examples, such as a method's `compute_intermediate_quantities`.
            dataset: the training examples, in their order.
            batch_size: of examples.
            rank: which of several processes this is; by default as `torch.distributed` has it.
            world_size: how many there are; each computes its own shards.
        """
        if len(dataset) != self.examples:  # type: ignore[arg-type]
            raise StoreError(f"The dataset has {len(dataset)} examples, {self.folder} is of {self.examples}.")  # type: ignore[arg-type]
        rank, world_size = _processes(rank, world_size)
        for number in self.missing(rank, world_size):
            part = Subset(dataset, self.span(number))
            self.write(number, embed(DataLoader(part, batch_size=batch_size, shuffle=False)))

    def read(self, number: int) -> Tensor:
        """The vectors of a shard, (examples, numbers), float32."""
        count, path = len(self.span(number)), self._path(number)
        if not path.is_file():
            raise StoreError(
                f"{self.folder} has no shard {number}; `missing()` lists those that `fill` has to compute."
            )
        size = path.stat().st_size
        if size != count * self._row:
            raise StoreError(
                f"{path} has {size} bytes, expected {count * self._row}; delete it and fill the store again."
            )
        raw = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8).view(count, self._row)
        scales = raw[:, :_SCALE].contiguous().view(torch.float32)
        return raw[:, _SCALE:].contiguous().view(self._dtype).float() * scales

    def blocks(self) -> Iterator[Tensor]:
        """All vectors in their order, a shard at a time."""
        return (self.read(number) for number in range(self.shards))

    def scores(self, queries: Tensor) -> Tensor:
        """Scalar products with the vectors of test examples (test, numbers), as (test, examples)."""
        self._require_queries(queries)
        return torch.cat([queries @ rows.to(queries).T for rows in self.blocks()], dim=1)

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k vectors with the largest scalar products, one shard in memory at a time.

        Returns:
            Positions (test, k), int64, and the products (test, k), the largest first; at most as many as there are.
        """
        self._require_queries(queries)
        if k < 1:
            raise InfluenceError(f"k is {k!r}, expected a positive int.")
        best, places = queries.new_empty(len(queries), 0), queries.new_empty(len(queries), 0, dtype=torch.int64)
        for number, rows in enumerate(self.blocks()):
            products = queries @ rows.to(queries).T
            here = torch.arange(len(rows), device=queries.device) + number * self.shard
            best, places = torch.cat([best, products], 1), torch.cat([places, here.expand_as(products)], 1)
            found = best.topk(min(k, best.shape[1]), dim=1)
            best, places = found.values, places.gather(1, found.indices)
        return places, best

    def _require_queries(self, queries: Tensor) -> None:
        if queries.dim() != 2 or queries.shape[1] != self.numbers:
            raise StoreError(f"Queries are {tuple(queries.shape)}, expected (test, {self.numbers}).")

    def _path(self, number: int) -> Path:
        return self.folder / f"shard-{number:06}.bin"


def _read(path: Path) -> dict[str, Any]:
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StoreError(f"{path.parent} holds no store; pass `examples` and `numbers` to make one.") from error
    except (ValueError, OSError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    _require_header(header, path)
    return dict(header)


def _require_header(header: Any, path: Path) -> None:
    sizes = ("examples", "numbers", "shard")
    if (
        not isinstance(header, dict)
        or header.get("version") != _VERSION
        or header.get("dtype") not in list(_DTYPES)
        or not isinstance(header.get("about"), dict)
        or any(type(header.get(name)) is not int or header[name] < 1 for name in sizes)
    ):
        raise StoreError(f"{path} describes no store of version {_VERSION}: {json.dumps(header)[:200]}")


def _require_same(found: dict[str, Any], wanted: dict[str, Any], folder: Path) -> None:
    for name, value in wanted.items():
        if found[name] != value:
            raise StoreError(
                f"{folder} holds a store whose {name} is {found[name]!r:.200}, expected {value!r:.200}; choose another "
                "folder, or delete that one."
            )


def _processes(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise InfluenceError("rank and world_size belong together; pass both or neither.")
    if rank is not None and world_size is not None:
        if not 0 <= rank < world_size:
            raise InfluenceError(f"rank is {rank}, expected 0 to {world_size - 1}.")
        return rank, world_size
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
