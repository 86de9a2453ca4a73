"""Building datasets that take `train: bool` by the name of a split, as all others are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["by_split_name"]


def by_split_name(dataset: Callable[..., Any], name: str, splits: tuple[str, str] = ("train", "test")) -> Any:
    """A function that builds `dataset` from `split`; the dataset's own first choice is understood too, and wins.

    Args:
        dataset: its second parameter is a bool that is True for the first split.
        name: the name that the function is given in the module of `dataset`.
        splits: what True and False are called.
    """
    root, choice, *rest = inspect.signature(dataset).parameters.values()

    def build(root: str | Path, split: str = splits[0], **options: Any) -> Any:
        chosen = options.pop(choice.name, None)
        if chosen is None:
            chosen = verify_str_arg(split, "split", splits) == splits[0]
        return dataset(root, chosen, **options)

    # Files that are read with these arguments are the dataset's; the registry shows and checks them.
    positional = inspect.Parameter("split", choice.kind, default=splits[0], annotation="str")
    keyword = choice.replace(kind=inspect.Parameter.KEYWORD_ONLY, default=None)
    build.__signature__ = inspect.Signature([root, positional, *rest, keyword])  # type: ignore[attr-defined]
    build.__module__, build.__name__, build.__qualname__ = dataset.__module__, name, name
    build.__doc__ = f"`{getattr(dataset, '__name__', dataset)}` by the name of a split."
    return build
