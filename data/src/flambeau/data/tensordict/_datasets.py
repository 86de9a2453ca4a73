"""Tensordicts as datasets of other formats: upstream's path of this function."""

from __future__ import annotations

from typing import Any


def to_mds(
    self: Any,
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
    """Write the rows of a tensordict as shards of MosaicML's streaming format; see `TensorDict.to_mds`."""
    self.to_mds(
        columns=columns,
        out=out,
        keep_local=keep_local,
        compression=compression,
        hashes=hashes,
        size_limit=size_limit,
        writer=writer,
        **kwargs,
    )
