"""How far a run has come: returns by frames, and the best policy so far."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch

from flambeau.core.files import write_atomic
from flambeau.rl.runs.evaluation import episode_returns

__all__ = ["Progress"]

EVALUATION_SEED = 1_000_003
"""Evaluations begin in states that training does not, the same ones each time."""


class Progress:
    """Evaluates a policy every so many frames, and keeps the best.

    Args:
        env_id: the environment's name.
        policy: the policy.
        every: frames from one evaluation to the next.
        episodes: of an evaluation.
        logger: gets "evaluation/return"; None for no logging.
        file: gets all rows as JSON, each time; None for no file.
    """

    def __init__(
        self, env_id: str, policy: torch.nn.Module, *, every: int, episodes: int, logger: Any, file: Path | None
    ) -> None:
        self.env_id, self.policy = env_id, policy
        self.every, self.episodes = every, episodes
        self.logger, self.file = logger, file
        self.rows: list[dict[str, float]] = []
        self.best: dict[str, torch.Tensor] | None = None
        self.seconds = 0.0
        self._since = time.perf_counter()

    def register(self, trainer: Any) -> None:
        """Evaluate after batches."""
        trainer.register_op("post_steps_log", lambda batch: self.look(trainer.collected_frames, trainer.total_frames))

    def look(self, frames: int, total: int) -> dict[str, Any] | None:
        """Evaluate, where it is time.

        Args:
            frames: how many there were.
            total: how many there will be; the last are evaluated in any case.
        """
        last = int(self.rows[-1]["frames"]) if self.rows else 0
        if frames // self.every == last // self.every and frames < total:
            return None
        self.seconds += time.perf_counter() - self._since
        returns = episode_returns(self.env_id, self.policy, episodes=self.episodes, seed=EVALUATION_SEED)
        row = {
            "frames": frames,
            "return": float(returns.mean()),
            "std": float(returns.std(unbiased=False)),
            "seconds": round(self.seconds, 2),
        }
        if not self.rows or row["return"] >= max(each["return"] for each in self.rows):
            self.best = {name: value.detach().clone() for name, value in self.policy.state_dict().items()}
        self.rows.append(row)
        if self.logger is not None:
            self.logger.log_scalar("evaluation/return", row["return"], step=frames)
        if self.file is not None:
            write_atomic(self.file, json.dumps(self.rows, indent=1) + "\n")
        self._since = time.perf_counter()
        return {"evaluation": row["return"], "log_pbar": True}

    def state_dict(self) -> dict[str, Any]:
        """Rows, and the best policy."""
        return {"rows": self.rows, "best": self.best, "seconds": self.seconds + time.perf_counter() - self._since}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from rows."""
        self.rows, self.best = list(state_dict["rows"]), state_dict["best"]
        self.seconds = state_dict["seconds"]
        self._since = time.perf_counter()
