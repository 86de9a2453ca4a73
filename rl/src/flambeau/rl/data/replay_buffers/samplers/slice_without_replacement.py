"""Draws of slices, from each trajectory once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.rl.data.replay_buffers.samplers.base import no_items
from flambeau.rl.data.replay_buffers.samplers.slice import SliceSampler
from flambeau.rl.data.replay_buffers.samplers.without_replacement import SamplerWithoutReplacement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from flambeau.rl.data.replay_buffers.storages import Storage

__all__ = ["SliceSamplerWithoutReplacement"]


class SliceSamplerWithoutReplacement(SliceSampler, SamplerWithoutReplacement):
    """Draws each trajectory once before any is drawn again, and from each a slice whose start is uniform.

    Trajectories that are too short take part in a pass and give nothing, so that some batches are smaller.

    Args:
        num_slices: see `SliceSampler`.
        slice_len: see `SliceSampler`.
        drop_last: leave out the trajectories that do not fill a batch, at the end of each pass.
        end_key: see `SliceSampler`.
        end_keys: see `SliceSampler`.
        traj_key: see `SliceSampler`.
        ends: see `SliceSampler`.
        trajectories: see `SliceSampler`.
        truncated_key: see `SliceSampler`.
        init_key: see `SliceSampler`.
        strict_length: see `SliceSampler`.
        shuffle: in random order; otherwise from the first place on.
        compile: accepted for code written for upstream.
        use_gpu: accepted for code written for upstream.

    Raises:
        TypeError, RuntimeError, ValueError: as `SliceSampler`.
    """

    def __init__(
        self,
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        drop_last: bool = False,
        end_key: Any = None,
        end_keys: Sequence[Any] | None = None,
        traj_key: Any = None,
        ends: Tensor | None = None,
        trajectories: Tensor | None = None,
        truncated_key: Any = ("next", "truncated"),
        init_key: Any = "is_init",
        strict_length: bool = True,
        shuffle: bool = True,
        compile: bool | dict[str, Any] = False,
        use_gpu: Any = False,
    ) -> None:
        SliceSampler.__init__(
            self,
            num_slices=num_slices,
            slice_len=slice_len,
            end_key=end_key,
            end_keys=end_keys,
            traj_key=traj_key,
            cache_values=True,
            ends=ends,
            trajectories=trajectories,
            truncated_key=truncated_key,
            init_key=init_key,
            strict_length=strict_length,
            compile=compile,
            use_gpu=use_gpu,
        )
        SamplerWithoutReplacement.__init__(self, drop_last=drop_last, shuffle=shuffle)

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw slices: places, and what marks their ends.

        Raises:
            RuntimeError: the storage is empty, a batch cannot be made of slices, no trajectory is long enough, or the
                storage holds no tensordicts.
            ValueError: with `drop_last`, fewer trajectories than a batch has slices.
        """
        length, count = self._slices(batch_size)
        if not len(storage):
            raise no_items()
        index, found = self._candidates(storage, length)  # at least one gives a slice
        every = index.candidates(1)
        while True:
            numbers = self._next(every.count, count).cpu().numpy().copy()
            if found.count < every.count:
                numbers.sort()  # Upstream: slices come in the order of places where some trajectory is too short.
            columns, starts, lengths = every.at(numbers)
            if self.strict_length:
                enough = lengths >= length
                columns, starts, lengths = columns[enough], starts[enough], lengths[enough]
            if len(starts):
                return self._cut(storage, index, columns, starts, lengths, length)

    def _empty(self) -> None:
        SliceSampler._empty(self)
        SamplerWithoutReplacement._empty(self)

    def state_dict(self) -> dict[str, Any]:
        """What is left of the pass."""
        return SamplerWithoutReplacement.state_dict(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where another sampler's `state_dict` was made."""
        SamplerWithoutReplacement.load_state_dict(self, state_dict)

    def dumps(self, path: Any) -> None:
        """Write the state below a folder, as JSON."""
        SamplerWithoutReplacement.dumps(self, path)

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` wrote."""
        SamplerWithoutReplacement.loads(self, path)
