"""What a policy gets in an environment, and a film of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.core.errors import PredictError
from flambeau.core.predict import Prediction, PredictOptions

if TYPE_CHECKING:
    import torch
    from torch import nn

    from flambeau.core.weights import WeightsEnum

__all__ = ["act_in_environment"]


def act_in_environment(
    source: str,
    *,
    model: nn.Module,
    weights: WeightsEnum,
    device: torch.device,
    dtype: torch.dtype,
    options: PredictOptions,
) -> Prediction:
    """Let a policy act for some episodes; see `flambeau.core.predict.Predictor`.

    Args:
        source: the environment's name, for which the weights must be.
        model: has `act(tensordict)`.
        weights: `meta["environment"]` is the environment's name.
        device: where the model is; the environment is on the CPU.
        dtype: of observations.
        options: `top` is the number of episodes.

    Returns:
        Rows of `episode`, from 1, and `return`. The picture is a film of the first: .mp4, .gif, or .png for its last
        moment.

    Raises:
        PredictError: the weights are for another environment.
    """
    from flambeau.rl.render.films import film
    from flambeau.rl.runs.evaluation import episode_returns

    name = f"{type(weights).__name__}.{weights.name}"
    trained_in = weights.meta["environment"]
    if source != trained_in:
        raise PredictError(f"{name} is trained in {trained_in}, and would not know what to do in {source}.")

    policy: Any = model

    def act(tensordict: Any) -> Any:
        observation = tensordict.get("observation")
        given = tensordict.empty().set("observation", observation.to(device, dtype))
        return tensordict.set("action", policy.act(given).get("action").to(observation.device))

    returns = episode_returns(source, act, episodes=options.top, seed=0, most_at_once=1)
    rows = [{"episode": number + 1, "return": value} for number, value in enumerate(returns.tolist())]

    def draw(path: Path) -> None:
        film(source, act, path, seed=0)

    return Prediction(rows, ("episode", "return"), f"{name} in {source}", draw)
