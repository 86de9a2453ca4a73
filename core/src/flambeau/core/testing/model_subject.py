"""A model as the subject of checks: how it is built, with and without memory, and what it makes of its inputs."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any

import torch
from torch import nn

from flambeau.core.registry import MODELS
from flambeau.core.testing.results import CheckFailed, Level, NotApplicable
from flambeau.core.testing.samples import Provision

# Above this a forward pass takes longer than a default run may; such models are computed at level "full".
LARGE = 100_000_000


class ModelSubject:
    """One registered model with what its checks share: how it is built, and one built instance.

    Args:
        name: canonical id.
        provided: the plugin's samples.
        level: "full" computes large models too.
    """

    def __init__(self, name: str, provided: Provision, level: Level = "default") -> None:
        self.name = name
        self.short = name.rpartition("/")[2]
        self.provided = provided
        self.level = level

    @functools.cached_property
    def builder(self) -> Any:
        """The registered builder."""
        return MODELS.resolve(self.name)

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """Builder arguments: no weights of any part, and what the plugin asks for."""
        names = inspect.signature(self.builder).parameters
        config = {name: None for name in names if name == "weights" or name.startswith("weights_")}
        with contextlib.suppress(NotApplicable):  # most models need no more
            config |= self.provided.ask("model_config", self.short)
        return config

    def build(self, **more: Any) -> nn.Module:
        """A new model with random parameters, always the same ones."""
        # A cached model may first be asked for within a check's inference mode, and must not be bound to it.
        with torch.random.fork_rng(devices=[]), torch.inference_mode(False):
            torch.manual_seed(0)
            return self._module(self.builder(**self.config | more))

    def build_empty(self, **more: Any) -> nn.Module:
        """A new model whose parameters have shapes and no memory, built the way pretrained models are.

        A constructor that needs parameters with values is built under `torch.device("meta")` in its turn.
        """
        from flambeau.core.weights import empty_parameters

        with torch.inference_mode(False):
            try:
                with empty_parameters():
                    return self._module(self.builder(**self.config | more))
            except RuntimeError:
                with torch.device("meta"):
                    return self._module(self.builder(**self.config | more))

    def _module(self, built: object) -> nn.Module:
        if not isinstance(built, nn.Module):
            raise CheckFailed(f"the builder returned a {type(built).__name__}, expected a torch.nn.Module.")
        return built

    @functools.cached_property
    def empty(self) -> nn.Module:
        """A model without memory."""
        return self.build_empty()

    @functools.cached_property
    def model(self) -> nn.Module:
        """A model with values, in eval mode. Checks leave it as it is.

        Raises:
            NotApplicable: it is large and the level is the default one.
        """
        parameters = sum(parameter.numel() for parameter in self.empty.parameters())
        if parameters > LARGE and self.level != "full":
            raise NotApplicable(f"{parameters / 1e6:,.0f} million parameters; computed at level full.")
        return self.build().eval()

    def inputs(self, batch: int) -> tuple[Any, ...]:
        """The plugin's inputs for a batch of this size, the same at every call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(batch)
            return tuple(self.provided.ask("example_inputs", self.short, batch))

    def output(self, batch: int, model: nn.Module | None = None) -> Any:
        """What a model, by default the shared one, makes of the plugin's inputs in inference."""
        model = model or self.model
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(0)
            return model(*self.inputs(batch))
