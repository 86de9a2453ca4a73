"""An environment in a process of its own that asks a server for each action, and tells of many steps at a time."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.rl.modules.inference_server._stamps import stamped


def act(env: Any, count: int, kind: Any, begin_anew: bool) -> Any:
    """Take steps, each with the action that the server of the environment's client gives.

    Args:
        env: with a client as its attribute `beside`.
        count: how many steps.
        kind: how the policy acts.
        begin_anew: begin with a new episode.

    Returns:
        The steps (count, ...), one behind the other.
    """
    client, state = env.__dict__["beside"], env.__dict__
    root = state.get("acting_root")
    if root is None or begin_anew:
        root = env.reset()
    steps = []
    for _ in range(count):
        answer = client(stamped(root, kind))
        step, root = env.step_and_maybe_reset(root.update(answer))
        steps.append(step)
    state["acting_root"] = root
    return torch.stack(steps)
