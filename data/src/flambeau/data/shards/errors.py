"""What can be wrong with a shard."""

from __future__ import annotations

from flambeau.core.errors import FlambeauError


class ShardError(FlambeauError, OSError):
    """A shard that cannot be opened or written."""


class DamagedShardError(ShardError, ValueError):
    """A shard whose content is not what it was.

    Attributes:
        shard: path or URL.
        offset: byte at which the damage shows.
        item: number of the sample that is lost, None where the damage is not in one sample.
    """

    def __init__(self, shard: str, offset: int, what: str, item: int | None = None) -> None:
        super().__init__(
            f"{shard}: damaged at byte {offset}: {what}. Write or fetch the shard again, or pass on_damaged='skip'."
        )
        self.shard, self.offset, self.item, self._what = shard, offset, item, what

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.shard, self.offset, self._what, self.item)


class ShardWarning(UserWarning):
    """A damaged shard, or part of one, was left out as asked."""
