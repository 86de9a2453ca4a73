"""Draws from several buffers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.replay_buffers.samplers.base import Sampler

if TYPE_CHECKING:
    from flambeau.rl.data.replay_buffers.storages.ensemble import StorageEnsemble

__all__ = ["SamplerEnsemble"]


class SamplerEnsemble(Sampler):
    """Draws some of an ensemble's buffers, and from each as many items, by its own sampler.

    Args:
        samplers: one for each buffer.
        p: how likely each buffer is, >= 0; "sampleable" for as likely as it has items that can be drawn; None for all
            the same.
        sample_from_all: every buffer gives as many items; none is drawn.
        num_buffer_sampled: how many buffers are drawn for a batch, with replacement; by default as many as there are.

    Raises:
        RuntimeError: both `p` and `sample_from_all`.
        ValueError: not as many probabilities as samplers, or one below 0.
    """

    def __init__(
        self,
        *samplers: Sampler,
        p: list[float] | Tensor | Literal["sampleable"] | None = None,
        sample_from_all: bool = False,
        num_buffer_sampled: int | None = None,
    ) -> None:
        if sample_from_all and p is not None:
            raise RuntimeError("With sample_from_all=True every buffer gives items; leave `p` out.")
        self._rng_private: torch.Generator | None = None
        self._samplers = samplers
        self.sample_from_all = sample_from_all
        self._num_buffer_sampled = num_buffer_sampled
        self.p = p

    @property
    def p(self) -> Tensor | Literal["sampleable"] | None:
        """How likely each buffer is, summing up to 1."""
        return self._p

    @p.setter
    def p(self, value: Any) -> None:
        if value is None or isinstance(value, str):
            if value not in (None, "sampleable"):
                raise ValueError(f"SamplerEnsemble: p is {value!r}, expected probabilities, 'sampleable' or None.")
            self._p: Tensor | Literal["sampleable"] | None = None if value is None else "sampleable"
            return
        given = torch.as_tensor(value, dtype=torch.float32)
        if given.shape != (len(self._samplers),) or not bool((given >= 0).all()) or not float(given.sum()) > 0:
            raise ValueError(
                f"SamplerEnsemble: p is {given.tolist()}, expected {len(self._samplers)} numbers of at least 0, one "
                "for each buffer, and not all 0."
            )
        self._p = given / given.sum()

    @property
    def num_buffer_sampled(self) -> int:
        """How many buffers are drawn for a batch."""
        return len(self._samplers) if self._num_buffer_sampled is None else self._num_buffer_sampled

    @num_buffer_sampled.setter
    def num_buffer_sampled(self, value: int | None) -> None:
        self._num_buffer_sampled = value

    @property
    def _rng(self) -> torch.Generator | None:
        return self._rng_private

    @_rng.setter
    def _rng(self, value: torch.Generator | None) -> None:
        self._rng_private = value
        for each in self._samplers:
            each._rng = value

    def __getitem__(self, index: Any) -> Any:
        """One of the samplers, or an ensemble of several."""
        if isinstance(index, int):
            return self._samplers[index]
        chosen = list(range(len(self._samplers)))[index] if isinstance(index, slice) else [int(at) for at in index]
        p = self._p[torch.tensor(chosen)] if isinstance(self._p, Tensor) else self._p
        return SamplerEnsemble(
            *(self._samplers[at] for at in chosen),
            p=p,
            sample_from_all=self.sample_from_all,
            num_buffer_sampled=self._num_buffer_sampled,
        )

    def __len__(self) -> int:
        return len(self._samplers)

    def can_sample(self, storage: Any, batch_size: int | None) -> bool:
        """Whether there is something to draw from."""
        ready = [each.can_sample(one, batch_size) for each, one in zip(self._samplers, storage._storages, strict=True)]
        return any(ready) if self._p == "sampleable" else all(ready)

    @property
    def ran_out(self) -> bool:
        """Whether every sampler has drawn all of its items."""
        return all(each.ran_out for each in self._samplers)

    @ran_out.setter
    def ran_out(self, value: bool) -> None:
        for each in self._samplers:
            each.ran_out = value

    def sample(self, storage: StorageEnsemble, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw buffers, and places in each: a tensordict with "buffer_ids" and "index", (buffers, items).

        Raises:
            ValueError: a batch cannot be divided by the number of buffers.
            RuntimeError: no buffer has items that can be drawn.
        """
        buffers = self._drawn(storage, batch_size)
        if batch_size % len(buffers):
            raise ValueError(
                f"batch_size={batch_size} cannot be divided among {len(buffers)} buffers; the batch must have the same "
                "number of items of each: change it, or num_buffer_sampled."
            )
        size = batch_size // len(buffers)
        places, infos = [], []
        for at in buffers:
            index, info = self._samplers[at].sample(storage._storages[at], size)
            places.append(torch.stack(index, -1) if isinstance(index, tuple) else index)
            infos.append(info)
        if len({place.shape for place in places}) > 1:
            raise RuntimeError(
                f"The buffers gave {[len(place) for place in places]} items; a batch has the same number of each. Use "
                "samplers that always give what they are asked for."
            )
        index = torch.stack(places)
        if index.ndim == 3 and index.shape[-1] == 1:
            index = index.squeeze(-1)
        owners = torch.tensor(buffers)[:, None].expand(index.shape[:2]).clone()
        return TensorDict({"index": index, "buffer_ids": owners}, owners.shape), {"_infos": infos}

    def _drawn(self, storage: Any, batch_size: int) -> list[int]:
        count = len(self._samplers)
        if self.sample_from_all:
            return list(range(count))
        if isinstance(self._p, Tensor):
            drawn = torch.multinomial(self._p, self.num_buffer_sampled, replacement=True, generator=self._rng)
        elif self._p == "sampleable":
            lengths = [
                float(len(one)) if each.can_sample(one, batch_size // self.num_buffer_sampled) else 0.0
                for each, one in zip(self._samplers, storage._storages, strict=True)
            ]
            if not any(lengths):
                raise RuntimeError("No buffer of the ensemble has items that can be drawn; extend one of them.")
            drawn = torch.multinomial(
                torch.tensor(lengths), self.num_buffer_sampled, replacement=True, generator=self._rng
            )
        else:
            drawn = torch.randint(count, (self.num_buffer_sampled,), generator=self._rng)
        buffers: list[int] = drawn.tolist()
        return buffers

    def _empty(self) -> None:
        for each in self._samplers:
            each._empty()

    def state_dict(self) -> dict[str, Any]:
        """The state of each sampler, by its number."""
        return {str(at): each.state_dict() for at, each in enumerate(self._samplers)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the states of another ensemble's samplers."""
        for at, each in enumerate(self._samplers):
            each.load_state_dict(state_dict[str(at)])

    def dumps(self, path: Path) -> None:
        """Write each sampler's state below a folder."""
        for at, each in enumerate(self._samplers):
            each.dumps(Path(path) / str(at))

    def loads(self, path: Path) -> None:
        """Read each sampler's state from a folder that `dumps` wrote."""
        for at, each in enumerate(self._samplers):
            each.loads(Path(path) / str(at))

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_rng_private"] = None
        return state

    def __repr__(self) -> str:
        return f"SamplerEnsemble({', '.join(map(repr, self._samplers))})"
