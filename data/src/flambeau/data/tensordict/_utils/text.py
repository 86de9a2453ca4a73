"""Tensordicts and folders as text."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import torch

from flambeau.data.tensordict._td import TensorDict

# What the text of a TensorDict consists of, however its lines are broken.
_PIECES = re.compile(
    r"(?P<leaf>[^\s:{]+): \w+\(shape=torch\.Size\(\[(?P<shape>[\d, ]*)\]\), "
    r"device=(?P<device>[\w:]+), dtype=torch\.(?P<dtype>\w+)"
    r"|(?P<nested>[^\s:{]+): \w+\(\s*fields="
    r"|(?P<opening>\w+\(\s*fields=)"
    r"|batch_size=torch\.Size\(\[(?P<size>[\d, ]*)\]\)"
)


def parse_tensor_dict_string(s: str) -> Any:
    """A TensorDict of zeros with the keys, shapes and dtypes that the text of a TensorDict shows.

    Raises:
        ValueError: it is no such text.
    """
    stack: list[tuple[str, dict[str, Any]]] = []
    current: dict[str, Any] | None = None
    result: Any = None
    for found in _PIECES.finditer(s):
        if current is None:
            if found["opening"] is None:
                break
            current = {}
        elif found["leaf"]:
            shape = _numbers(found["shape"])
            current[found["leaf"]] = torch.zeros(shape, dtype=getattr(torch, found["dtype"]), device=found["device"])
        elif found["nested"]:
            stack.append((found["nested"], current))
            current = {}
        elif found["size"] is not None:
            made = TensorDict(current, batch_size=_numbers(found["size"]))
            if not stack:
                result = made
                break
            key, current = stack.pop()
            current[key] = made
    if result is None:
        raise ValueError("this is not the text of a TensorDict, as `repr` gives it.")
    return result


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.strip()]


def print_directory_tree(path: Any, indent: str = "", display_metadata: bool = True) -> str:
    """Log, and return, the files below a folder, one a line, with their size in all on top.

    Args:
        path: of the folder.
        indent: before each line.
        display_metadata: say how large the folder is.
    """
    folder = Path(path)
    lines = []
    if display_metadata:
        total = float(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
        unit = "B"
        for unit in ("B", "kB", "MB", "GB", "TB"):
            if total < 1024 or unit == "TB":
                break
            total /= 1024
        lines.append(f"{indent}Directory size: {total:.2f} {unit}")
    lines += _tree_lines(folder, indent)
    text = "\n".join(lines)
    logging.getLogger("flambeau.data.tensordict").info(text)
    return text


def _tree_lines(path: Any, indent: str) -> list[str]:
    if not path.is_dir():
        return [indent + path.name]
    lines = [f"{indent}{path.name}/"]
    for child in sorted(path.iterdir(), key=lambda one: (one.is_file(), one.name)):
        lines += _tree_lines(child, indent + "    ")
    return lines
