"""From a configuration to the file it asks for."""

from __future__ import annotations

from typing import Any

from flambeau.rl.render.artifacts import write_render_artifact
from flambeau.rl.render.checkpoint import checkpoint_hash, load_checkpoint
from flambeau.rl.render.config import RenderConfig, RenderResult
from flambeau.rl.render.env import make_render_env
from flambeau.rl.render.policy import load_render_policy
from flambeau.rl.render.rollout import collect_render_rollouts

__all__ = ["prepared", "render_policy"]


def prepared(config: RenderConfig) -> tuple[Any, Any]:
    """Environment and policy of a configuration.

    Args:
        config: of the run.
    """
    checkpoint = load_checkpoint(config.ckpt, config.device)
    env = make_render_env(config, checkpoint)
    digest = checkpoint_hash(config.ckpt)
    return env, load_render_policy(config, env, checkpoint=checkpoint, checkpoint_digest=digest)


def render_policy(config: RenderConfig) -> RenderResult:
    """Record episodes of a policy, and write the file a configuration asks for.

    Args:
        config: of the run.

    Raises:
        FileNotFoundError: there is no checkpoint.
        FileExistsError: there is such a file, and `overwrite` is not set.
        RuntimeError: a film of no frames.
    """
    env, policy = prepared(config)
    try:
        return write_render_artifact(collect_render_rollouts(env, policy, config), config)
    finally:
        close = getattr(env, "close", None)
        if callable(close) and not getattr(env, "is_closed", False):
            close()
