"""The writers of several buffers side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor

from flambeau.rl.data.replay_buffers.writers.base import Writer

__all__ = ["WriterEnsemble"]


class WriterEnsemble(Writer):
    """Writers of the buffers of an ensemble, which is written through its buffers.

    Args:
        writers: one for each buffer.
    """

    def __init__(self, *writers: Writer) -> None:
        super().__init__()
        self._writers = writers

    @property
    def tracks_generations(self) -> bool:
        """Whether every writer counts how often places were written over."""
        return all(each.tracks_generations for each in self._writers)

    def __getitem__(self, index: Any) -> Any:
        """One of the writers, or an ensemble of several."""
        if isinstance(index, int):
            return self._writers[index]
        if isinstance(index, slice):
            return WriterEnsemble(*self._writers[index])
        return WriterEnsemble(*(self._writers[int(at)] for at in index))

    def __len__(self) -> int:
        return len(self._writers)

    def register_storage(self, storage: Any) -> None:
        """Nothing: each writer has its own storage."""
        self._storage = storage

    def _refuse(self) -> NoReturn:
        raise RuntimeError("An ensemble is written through its buffers: extend them instead.")

    def add(self, data: Any = None) -> Any:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        self._refuse()

    def extend(self, data: Any = None) -> Any:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        self._refuse()

    def _empty(self, empty_write_count: bool = True) -> None:
        for each in self._writers:
            each._empty(empty_write_count)

    def generations_of(self, index: Any) -> Tensor:
        """How often places were written over, for an index with "buffer_ids" and "index"."""
        buffers, places = index["buffer_ids"].reshape(-1), index["index"].reshape(-1)
        found: Tensor = places.clone()
        for at, writer in enumerate(self._writers):
            chosen = buffers == at
            found[chosen] = writer.generations_of(places[chosen])
        return found.reshape(index["index"].shape)

    def state_dict(self) -> dict[str, Any]:
        """The state of each writer, by its number."""
        return {str(at): each.state_dict() for at, each in enumerate(self._writers)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the states of another ensemble's writers."""
        for at, each in enumerate(self._writers):
            each.load_state_dict(state_dict[str(at)])

    def dumps(self, path: Any) -> None:
        """Write each writer's state below a folder."""
        for at, each in enumerate(self._writers):
            each.dumps(Path(path) / str(at))

    def loads(self, path: Any) -> None:
        """Read each writer's state from a folder that `dumps` wrote."""
        for at, each in enumerate(self._writers):
            each.loads(Path(path) / str(at))

    def __repr__(self) -> str:
        return f"WriterEnsemble({', '.join(map(repr, self._writers))})"
