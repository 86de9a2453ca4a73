"""Where episodes are, as a part of checkpoints: a run that goes on from one does what it would have done."""

from __future__ import annotations

from typing import Any

from flambeau.rl._utils import seed_generator

__all__ = ["Episodes"]


class Episodes:
    """Episodes of environments that keep their state to themselves.

    The state of those in tensor code is a part of the collector's. Of others nobody can take it out: they begin new
    episodes with each checkpoint, seeded by the number of frames, in the run that is saved as in the run that goes on
    from it, so that both do the same.

    Args:
        collector: has one environment, or a batch.
        seed: of the run.
        kept: whether the collector keeps the state.
    """

    def __init__(self, collector: Any, seed: int, *, kept: bool) -> None:
        self.collector = collector
        self.seed = seed
        self.kept = kept

    def state_dict(self) -> dict[str, Any]:
        """Nothing; environments that keep their state to themselves begin anew."""
        self._begin_anew()
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As the run did that was saved."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        if not self.kept:
            self.collector.set_seed(seed_generator(self.seed + self.collector._frames))
            self.collector.reset()
