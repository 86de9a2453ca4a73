"""Building a model by name, with weights from anywhere, fitted to the caller's task."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flambeau.core.errors import CheckpointError, UnknownNameError
from flambeau.core.hub import fetching
from flambeau.core.registry import MODELS
from flambeau.core.weights.annotations import annotated_enums
from flambeau.core.weights.enums import WeightsEnum
from flambeau.core.weights.facts import looks_like_a_file
from flambeau.core.weights.pretrained import build_with_weights
from flambeau.core.weights.sources import repository_file
from flambeau.core.weights.surgery import replace_inputs, replace_outputs

if TYPE_CHECKING:
    from torch import nn

    from flambeau.core.weights.index import Index


class _Name(str):
    """A member's name, of an enum that the builder chooses by its other arguments."""

    __slots__ = ()


# What a repository on Hugging Face says about its model:
# {"model": "vision/resnet50", "arguments": {"num_classes": 10}}; the weights are in `model.safetensors`.
REPOSITORY_CONFIG = "flambeau.json"


def build_adapted(catalogue: Index, name: str, config: dict[str, Any]) -> nn.Module:
    """What `get_model` does.

    Raises:
        UnknownNameError, AmbiguousNameError: from the registry.
        ValueError: the model was registered without the head or stem that should be replaced, they are of a kind that
            cannot be, or a number is not positive.
        CheckpointError: a repository that does not describe its model.
    """
    if name.startswith("hf:"):
        name, config = _from_repository(name, config)
    builder, declared = catalogue.get_model_builder(name), _declared(catalogue, name)
    weights = _weights(catalogue, name, builder, config.get("weights"))
    config = {key: value for key, value in config.items() if key != "weights"}
    classes, channels = _positive(config, "num_classes"), _positive(config, "in_channels")
    learned_classes = _classes(weights) if isinstance(weights, WeightsEnum) else None
    replace_head = isinstance(weights, WeightsEnum) and classes not in (None, learned_classes)
    if replace_head or classes is None:
        config.pop("num_classes", None)
    if declared.get("stem"):
        config.pop("in_channels", None)
    model: nn.Module = _built(builder, weights, config)
    if replace_head and classes is not None:
        replace_outputs(model, _layers(declared, "head", name, "num_classes"), classes, learned_classes)
    if declared.get("stem") and channels is not None:
        replace_inputs(model, declared["stem"], channels, learned=weights is not None)
    return model


def _built(builder: Callable[..., Any], weights: Any, config: dict[str, Any]) -> Any:
    if weights is None:
        return builder(**config)
    if isinstance(weights, (WeightsEnum, _Name)) and _takes(builder, "weights"):
        return builder(weights=weights, **config)
    return build_with_weights(builder, weights, **config)


def _takes(builder: Callable[..., Any], argument: str) -> bool:
    parameters = inspect.signature(builder).parameters.values()
    return any(parameter.name == argument or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _from_repository(name: str, config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The registered model that a repository is of, and its configuration with the repository's weights."""
    path = fetching.fetch(repository_file(name, REPOSITORY_CONFIG))
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        model, arguments = described["model"], dict(described.get("arguments", {}))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{name}: {REPOSITORY_CONFIG} is not of the form "
            f'{{"model": "plugin/name", "arguments": {{...}}}} ({error!r}).'
        ) from error
    if not isinstance(model, str) or model.startswith("hf:") or "weights" in arguments:
        raise CheckpointError(
            f"{name}: {REPOSITORY_CONFIG} names {model!r}, expected a registered model, and no weights."
        )
    return model, {"weights": name, **arguments, **config}


def _declared(catalogue: Index, name: str) -> dict[str, Any]:
    """What the builder was registered with, by its code, which a manifest may be behind of."""
    entry = catalogue.model_entry(name)
    registered = {other.id: other.info for other in MODELS.registrations()}
    return registered.get(entry.id, entry.info)


def _weights(catalogue: Index, name: str, builder: Callable[..., Any], weights: Any) -> Any:
    """A member where `weights` names one, its name where the builder knows which, else what it is: path, URL, None."""
    if not isinstance(weights, str) or "://" in weights or weights.startswith(("hf:", "package:")):
        return weights
    if os.path.isfile(weights) or looks_like_a_file(weights):  # noqa: PTH113 - a string that may be no path at all
        return weights  # where it is not there, whoever loads it tells
    if ":" in weights or "/" in weights:
        try:
            return catalogue.get_weight(weights)
        except UnknownNameError:
            return weights  # a path that does not exist, perhaps
    enums = annotated_enums(builder)
    if len(enums) > 1:
        return _Name(weights)
    # A builder without an annotation: its manifest may say which enum it takes.
    return (enums[0] if enums else catalogue.get_model_weights(name)).verify(weights)


def _positive(config: dict[str, Any], key: str) -> int | None:
    number: int | None = config.get(key)
    if number is not None and number < 1:
        raise ValueError(f"{key} is {number}, expected at least 1.")
    return number


def _classes(weights: WeightsEnum) -> int | None:
    """How many classes weights were trained for, None where their meta does not tell."""
    categories = weights.meta.get("categories")
    return len(categories) if categories is not None else weights.meta.get("num_classes")


def _layers(declared: dict[str, Any], kind: str, model: str, argument: str) -> list[str]:
    if not declared.get(kind):
        raise ValueError(
            f"model {model!r} declares no {kind}, so {argument} cannot differ from its weights'; "
            f"its builder would say which layers to replace: @register_model({kind}=...)."
        )
    return list(declared[kind])
