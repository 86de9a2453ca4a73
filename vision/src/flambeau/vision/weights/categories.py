"""Class names that several weights share, each list stored once, in `categories.json` beside this module."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

__all__ = ["categories"]


def categories(name: str) -> list[str]:
    """The class names of a label set, in index order.

    Args:
        name: `imagenet_1000`, `coco_91`, `coco_person`, `coco_person_keypoints`, `voc_21` or `kinetics_400`.

    Returns:
        One list per label set and process: treat it as read-only.

    Raises:
        KeyError: there is no such label set.
    """
    return _tables()[name]


@cache
def _tables() -> dict[str, list[str]]:
    text = files("flambeau.vision.weights").joinpath("categories.json").read_text(encoding="utf-8")
    tables: dict[str, list[str]] = json.loads(text)
    return tables
