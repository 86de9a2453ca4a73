"""Groups of trajectories that writers anywhere in a cluster complete."""

from __future__ import annotations

from typing import Any, Literal

from flambeau.rl.envs.transforms.ray_service import RayTransform
from flambeau.rl.objectives.llm.mc_advantage import _COUNTS, QUEUED, MCAdvantage
from flambeau.rl.objectives.llm.mc_selection import Bounds, MCAdvantageSelector

__all__ = ["RayMCAdvantage"]


class RayMCAdvantage(RayTransform):
    """`MCAdvantage` in an actor of Ray, which the writers of a cluster share.

    Args:
        grpo_size, prompt_key, rewards_key, advantage_key, done_key, verbose, trajectory_return, keep_return_bounds,
            candidate_group_size, candidate_selection_min_size, candidate_selector: see `MCAdvantage`.
        ray_init_config: of `ray.init`, where Ray does not run yet.
        remote_config: what the actor takes: `num_cpus` and `num_gpus`.
        actor_name: of the actor; one of this name is used where there is one.

    Raises:
        ImportError: Ray is not installed.
        ValueError: see `MCAdvantage`.
    """

    requires_shared_write_state = True

    def __init__(
        self, grpo_size: int, prompt_key: Any = "query", rewards_key: Any = ("next", "reward"),
        advantage_key: Any = "advantage", done_key: Any = ("next", "done"), verbose: bool = False, *,
        trajectory_return: Literal["sum", "max", "mean"] | None = None, keep_return_bounds: Bounds | None = None,
        candidate_group_size: int | None = None, candidate_selection_min_size: int | None = None,
        candidate_selector: MCAdvantageSelector | None = None, ray_init_config: dict[str, Any] | None = None,
        remote_config: dict[str, Any] | None = None, actor_name: str | None = None,
    ) -> None:  # fmt: skip
        arguments = {
            "grpo_size": grpo_size, "prompt_key": prompt_key, "rewards_key": rewards_key,
            "advantage_key": advantage_key, "done_key": done_key, "verbose": verbose,
            "trajectory_return": trajectory_return, "keep_return_bounds": keep_return_bounds,
            "candidate_group_size": candidate_group_size,
            "candidate_selection_min_size": candidate_selection_min_size, "candidate_selector": candidate_selector,
        }  # fmt: skip
        MCAdvantage(**arguments)  # wrong arguments raise here
        if ray_init_config is not None:
            from flambeau.rl._remote import imported_ray

            ray = imported_ray()
            if not ray.is_initialized():
                ray.init(**ray_init_config)
        super().__init__(actor_name=actor_name, **(remote_config or {}), arguments=arguments)

    def _create_actor(self, **kwargs: Any) -> Any:
        return self._hosted(MCAdvantage, **kwargs["arguments"])

    def forward(self, tensordict: Any = None) -> Any:
        """Data that are read stay as they are."""
        return tensordict

    @property
    def is_shared(self) -> bool:
        """True: all who have this transform write to one actor."""
        return True

    def share_memory_(self) -> RayMCAdvantage:
        """Nothing: the actor is shared."""
        return self

    def reset_stats(self) -> None:
        """Begin to count anew."""
        self._ask("reset_stats")

    def clear_queues(self) -> None:
        """Forget the trajectories that wait for others."""
        self._ask("clear_queues")

    def get_stats(self) -> dict[str, float | int]:
        """All counts, by the names of the properties."""
        return self._ask("get_stats")  # type: ignore[no-any-return]

    @property
    def queues(self) -> Any:
        """The trajectories that wait, by their groups: a copy."""
        return self._read("queues")


def _remote(name: str) -> property:
    def read(self: RayMCAdvantage) -> Any:
        return self._read(name)

    read.__doc__ = getattr(MCAdvantage, name).__doc__
    return property(read)


for _name in (*_COUNTS, *QUEUED):
    setattr(RayMCAdvantage, _name, _remote(_name))
del _name
