"""From paths, URLs and patterns to shards."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flambeau.data.shards.errors import ShardError
from flambeau.data.shards.shard import Shard
from flambeau.data.storage import is_remote

_KINDS = {
    ".tar": ("tar", "TarShard"),
    ".zip": ("zip", "ZipShard"),
    ".tfrecord": ("tfrecord", "TFRecordShard"),
    ".tfrecords": ("tfrecord", "TFRecordShard"),
    ".parquet": ("arrow", "ParquetShard"),
    ".arrow": ("arrow", "ArrowShard"),
    ".arrows": ("arrow", "ArrowShard"),
    ".feather": ("arrow", "ArrowShard"),
    ".ipc": ("arrow", "ArrowShard"),
}
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


def open_shard(path: str | os.PathLike[str], *, verify: bool = True, settings: dict[str, Any] | None = None) -> Shard:
    """One shard, of the format that its suffix says.

    Args:
        path: file or URL: .tar, .zip, .tfrecord, .parquet, .arrow, .feather.
        verify: compare contents with checksums, where there are some.
        settings: keywords of `open_object`, for URLs.

    Raises:
        ShardError: a suffix that is not known.
    """
    from importlib import import_module

    name = os.fspath(path)
    suffix = Path(name.partition("?")[0]).suffix.lower()
    if suffix not in _KINDS:
        raise ShardError(
            f"{name}: the suffix {suffix!r} is none of {', '.join(_KINDS)}; name the file after its format."
        )
    module, kind = _KINDS[suffix]
    options = {} if module == "arrow" else {"verify": verify}
    shard: Shard = getattr(import_module(f"flambeau.data.shards.{module}"), kind)(name, settings=settings, **options)
    return shard


def open_shards(
    shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Shard],
    *,
    verify: bool = True,
    settings: dict[str, Any] | None = None,
) -> list[Shard]:
    """All shards that paths, URLs and patterns name, in order; an MDS folder or its `index.json` names several.

    Raises:
        ShardError: there are none.
    """
    given = [shards] if isinstance(shards, (str, os.PathLike)) else list(shards)
    found: list[Shard] = []
    for one in given:
        if isinstance(one, Shard):
            found.append(one)
            continue
        for path in expand(os.fspath(one)):
            if path.endswith("index.json") or (not is_remote(path) and Path(path).is_dir()):
                from flambeau.data.shards.mds import mds_shards

                found += mds_shards(path, settings=settings)
            else:
                found.append(open_shard(path, verify=verify, settings=settings))
    if not found:
        raise ShardError(f"No shards: {given!r:.300} names none; check the pattern.")
    return found


def expand(pattern: str) -> list[str]:
    """The paths of a pattern: `{000..099}` counts, both ends included; `*` and `?` ask the file system, sorted.

    Example:
        >>> expand("train-{08..10}.tar")
        ['train-08.tar', 'train-09.tar', 'train-10.tar']
    """
    ranges = [_numbers(*found) for found in _RANGE.findall(pattern)]
    pieces = _RANGE.split(pattern)[::3]
    paths = [
        "".join(itertools.chain.from_iterable(itertools.zip_longest(pieces, choice, fillvalue="")))
        for choice in itertools.product(*ranges)
    ]
    if is_remote(pattern) or not glob.has_magic(pattern):
        return paths
    return [found for path in paths for found in sorted(glob.glob(path))]  # noqa: PTH207 - absolute patterns too


def _numbers(first: str, last: str) -> list[str]:
    width = len(first) if len(first) == len(last) else 0
    return [str(number).zfill(width) for number in range(int(first), int(last) + 1)]
