"""Finding the labels, predictions and weights of tasks among a model's outputs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.rec.metrics._errors import InputError
from flambeau.rec.metrics.metrics_config import RecTaskInfo

__all__ = [
    "is_empty_signals",
    "parse_model_outputs",
    "parse_required_inputs",
    "parse_task_model_outputs",
    "session_ids_to_tensor",
]


def is_empty_signals(labels: Tensor, predictions: Tensor, weights: Tensor) -> bool:
    """Whether there are no examples: neither labels nor predictions nor weights."""
    return labels.numel() == 0 and predictions.numel() == 0 and weights.numel() == 0


def session_ids_to_tensor(session_ids: Sequence[str], device: torch.device | None = None) -> Tensor:
    """Numbers of sessions from their names; a name that comes again after another one is another session.

    Args:
        session_ids: the name of each example's session.
        device: of the result.

    Returns:
        (examples,), int64, from 1 on.

    Example:
        >>> session_ids_to_tensor(["a", "a", "b", "a"])
        tensor([1, 1, 2, 3])
    """
    changes = [now != before for before, now in itertools.pairwise(session_ids)]
    return torch.tensor([1, *changes][: len(session_ids)], dtype=torch.int64, device=device).cumsum(0)


def parse_model_outputs(
    label_name: str, prediction_name: str, weight_name: str, model_out: Mapping[str, Any]
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Labels, predictions and weights of a task, without dimensions of size 1.

    Args:
        label_name: key of the labels.
        prediction_name: key of the predictions; "" of a task without.
        weight_name: key of the weights; "" of a task without predictions.
        model_out: the model's outputs.

    Raises:
        ValueError: a key is missing.
        InputError: they do not have the same number of examples, or there is a weight without predictions.
    """
    labels = _output(model_out, label_name, "label_name")
    if not prediction_name:
        if weight_name:
            raise InputError(f"weight_name is {weight_name!r} without a prediction_name; leave it empty, too.")
        return labels, None, None
    predictions = _output(model_out, prediction_name, "prediction_name")
    weights = _output(model_out, weight_name, "weight_name")
    # Of several classes or labels there is a prediction for each.
    examples = predictions.numel() if predictions.ndim == labels.ndim else predictions.shape[0]
    counts = labels.numel(), examples, weights.numel()
    wide = predictions.ndim == labels.ndim == 2 and labels.shape == predictions.shape
    if wide:
        counts = labels.shape[0], predictions.shape[0], weights.shape[0]
    if len(set(counts)) > 1:
        raise InputError(
            f"{label_name!r}, {prediction_name!r} and {weight_name!r} have {counts[0]}, {counts[1]} and {counts[2]} "
            f"examples; they must have the same number."
        )
    return labels, predictions, weights


def parse_required_inputs(
    model_out: Mapping[str, Any],
    required_inputs_list: Sequence[str],
    ndcg_transform_input: bool = False,
    device: torch.device | None = None,
) -> dict[str, Tensor]:
    """Further inputs of metrics, without dimensions of size 1.

    Args:
        model_out: the model's outputs.
        required_inputs_list: their keys.
        ndcg_transform_input: lists of names become numbers, see `session_ids_to_tensor`.
        device: of those numbers.

    Raises:
        KeyError: a key is missing.
    """
    found = {}
    for name in required_inputs_list:
        value = model_out[name]
        if isinstance(value, list) and ndcg_transform_input:
            value = session_ids_to_tensor(value, device)
        if not isinstance(value, Tensor):
            raise InputError(
                f"The model's output {name!r} is a {type(value).__name__}; expected a tensor, or a list of names with "
                f"ndcg_transform_input=True."
            )
        found[name] = value.squeeze()
    return found


def parse_task_model_outputs(
    tasks: Sequence[RecTaskInfo], model_out: Mapping[str, Any], required_inputs_list: Sequence[str] | None = None
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """Labels, predictions and weights of all tasks that have examples, by the tasks' names.

    Args:
        tasks: the tasks.
        model_out: the model's outputs by key.
        required_inputs_list: keys of further inputs.

    Returns:
        labels, predictions, weights, and the further inputs by their keys.

    Raises:
        ValueError, KeyError: a key is missing.
        InputError: a task's inputs do not fit together.
    """
    all_labels: dict[str, Tensor] = {}
    all_predictions: dict[str, Tensor] = {}
    all_weights: dict[str, Tensor] = {}
    for task in tasks:
        labels, predictions, weights = parse_model_outputs(
            task.label_name, task.prediction_name, task.weight_name, model_out
        )
        if predictions is None or weights is None:
            if labels.numel():
                all_labels[task.name] = labels
        elif not is_empty_signals(labels, predictions, weights):
            all_labels[task.name], all_predictions[task.name] = labels, predictions
            all_weights[task.name] = weights
    further: dict[str, Tensor] = {}
    if required_inputs_list:
        device = next((one.device for one in all_labels.values()), None)
        further = parse_required_inputs(model_out, required_inputs_list, True, device)
    return all_labels, all_predictions, all_weights, further


def _output(model_out: Mapping[str, Any], name: str, option: str) -> Tensor:
    if name not in model_out:
        known = ", ".join(model_out) or "nothing"
        raise InputError(f"The model's outputs have no {name!r}, the {option} of a task; they have {known}.")
    value: Tensor = model_out[name]
    return value.squeeze() if value.numel() != 1 else value.reshape(-1)
