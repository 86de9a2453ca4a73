"""What handlers share: labels, configuration files, classes of a module, and the error that goes to the client."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

__all__ = [
    "PredictionException", "get_yaml_config", "list_classes_from_module", "load_label_mapping", "map_class_to_label",
]  # fmt: skip


class PredictionException(Exception):
    """Raised by a handler: its message and status go to the client.

    Args:
        message: what the client reads.
        error_code: status of HTTP.
    """

    def __init__(self, message: str, error_code: int = 500) -> None:
        super().__init__(message)
        self.message = message
        self.error_code = error_code

    def __str__(self) -> str:
        return f"{self.message} : {self.error_code}"


def list_classes_from_module(module: ModuleType, parent_class: type | None = None) -> list[type]:
    """Classes that a module itself defines, in the order of its text.

    Args:
        module: where to look.
        parent_class: only subclasses of it.
    """
    found = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__]
    return [value for value in found if parent_class is None or issubclass(value, parent_class)]


def load_label_mapping(mapping_file_path: str | Path) -> dict[str, Any] | None:
    """Labels by the text of their number; None where there is no such file.

    The file holds such an object, or one with the key `object_type_names` and a list.

    Raises:
        ValueError: it is no JSON of that kind.
    """
    path = Path(mapping_file_path)
    if not path.is_file():
        return None
    mapping = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(mapping, dict):
        raise ValueError(f"{path.name} holds {type(mapping).__name__}, expected an object of numbers and labels.")
    names = mapping.get("object_type_names")
    if isinstance(names, Sequence) and not isinstance(names, str):
        return {str(number): name for number, name in enumerate(names)}
    return {key: str(value[-1]) if isinstance(value, list) else value for key, value in mapping.items()}


def map_class_to_label(
    probs: Iterable[Iterable[float]],
    mapping: Mapping[str, Any] | None = None,
    lbl_classes: Iterable[Iterable[int]] | None = None,
) -> list[dict[str, float]]:
    """For each row, labels and their values.

    Args:
        probs: (N, K) values.
        mapping: labels by the text of their number; the number itself where it is None, or lacks one.
        lbl_classes: (N, K) numbers of classes; 0 to K - 1 where they are None.
    """
    rows = [list(row) for row in probs]
    classes = itertools.repeat(range(len(rows[0]) if rows else 0)) if lbl_classes is None else lbl_classes
    names = mapping if mapping is not None else {}
    return [
        {names.get(str(number), str(number)): value for number, value in zip(numbers, row, strict=False)}
        for numbers, row in zip(classes, rows, strict=False)
    ]


def get_yaml_config(yaml_file_path: str | Path) -> dict[str, Any]:
    """A configuration file; empty where it holds nothing."""
    return yaml.safe_load(Path(yaml_file_path).read_text(encoding="utf-8")) or {}
