"""Where episodes are, as a part of checkpoints: a run that goes on from one does what it would have done."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.rl._utils import seed_generator

__all__ = ["Episodes"]


class Episodes:
    """The state of a collector's environments.

    Environments in tensor code keep their state in the tensordict, and only a generator besides: both are kept. Others
    keep it to themselves, where nobody can take it out. They begin new episodes with each checkpoint, seeded by the
    number of frames: in the run that is saved as in the run that goes on from it, so that both do the same.

    Args:
        collector: has one environment, or a batch.
        seed: of the run.
    """

    def __init__(self, collector: Any, seed: int) -> None:
        self.collector = collector
        self.seed = seed

    @property
    def _generator(self) -> torch.Generator | None:
        env = self.collector.env
        base = getattr(env, "base_env", env)
        found = base.__dict__.get("rng")
        return found if isinstance(found, torch.Generator) else None

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on; environments that keep their state to themselves begin anew."""
        generator = self._generator
        if generator is None:
            self._begin_anew()
            return {}
        return {
            "root": self.collector._root.to_dict(),
            "ids": self.collector._ids,
            "generator": generator.get_state(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on."""
        generator = self._generator
        if generator is None:
            self._begin_anew()
            return
        self.collector._root.update(state_dict["root"])
        self.collector._ids = state_dict["ids"]
        generator.set_state(state_dict["generator"].cpu())

    def _begin_anew(self) -> None:
        self.collector.set_seed(seed_generator(self.seed + self.collector._frames))
        self.collector.reset()
