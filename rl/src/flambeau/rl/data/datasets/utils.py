"""Data sets by names with a prefix: "minari:D4RL/door/human-v2"."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from flambeau.core.errors import DuplicateNameError, UnknownNameError, close_names

__all__ = ["load_dataset", "register_dataset"]

DatasetFactory = Callable[..., Any] | str

_HERE = "flambeau.rl.data.datasets"
_FACTORIES: dict[str, DatasetFactory] = {
    "atari": f"{_HERE}.atari_dqn:AtariDQNExperienceReplay",
    "atari_dqn": f"{_HERE}.atari_dqn:AtariDQNExperienceReplay",
    "d4rl": f"{_HERE}.d4rl:D4RLExperienceReplay",
    "gen_dgrl": f"{_HERE}.gen_dgrl:GenDGRLExperienceReplay",
    "lerobot": f"{_HERE}.lerobot:LeRobotExperienceReplay",
    "minari": f"{_HERE}.minari_data:MinariExperienceReplay",
    "openml": f"{_HERE}.openml:OpenMLExperienceReplay",
    "openx": f"{_HERE}.openx:OpenXExperienceReplay",
    "roboset": f"{_HERE}.roboset:RobosetExperienceReplay",
    "vd4rl": f"{_HERE}.vd4rl:VD4RLExperienceReplay",
}


class TakenPrefixError(DuplicateNameError, KeyError):
    """Data sets of another source have this prefix."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError quotes its message


def register_dataset(prefix: str, dataset: DatasetFactory, *, replace: bool = False) -> None:
    """Let `load_dataset` find data sets of a source.

    Args:
        prefix: of their names, before the colon.
        dataset: what is called with the rest of the name, or where it is: "module:attribute", imported when it is used.
        replace: whether another one of this prefix is replaced.

    Raises:
        TakenPrefixError: another source has the prefix (a ValueError and KeyError).
        ValueError: a prefix that is empty or has a colon, or a place that is not "module:attribute".
        TypeError: something that cannot be called.
    """
    if not prefix or ":" in prefix:
        raise ValueError(f"prefix is {prefix!r}, expected a name without a colon, such as 'minari'.")
    if isinstance(dataset, str):
        module, colon, attribute = dataset.partition(":")
        if not (module and colon and attribute):
            raise ValueError(f"dataset is {dataset!r}, expected 'module:attribute'.")
    elif not callable(dataset):
        raise TypeError(f"dataset must be callable, or a text 'module:attribute'; got {type(dataset).__name__}.")
    if prefix in _FACTORIES and not replace:
        raise TakenPrefixError(f"the prefix {prefix!r} is taken; choose another, or pass replace=True.")
    _FACTORIES[prefix] = dataset


def load_dataset(dataset_id: str, **kwargs: Any) -> Any:
    """A data set by its name.

    Args:
        dataset_id: a prefix, a colon and the data set's name there, such as "d4rl:halfcheetah-medium-v2". Prefixes are
            atari (or atari_dqn), d4rl, gen_dgrl, lerobot, minari, openml, openx, roboset, vd4rl and those registered.
        kwargs: arguments of the data set's class, such as `batch_size`.

    Raises:
        ValueError: no prefix, or an unknown one.

    Example:
        >>> register_dataset("count", lambda name, start=0: list(range(start, int(name))), replace=True)
        >>> load_dataset("count:3", start=1)
        [1, 2]
    """
    prefix, colon, rest = dataset_id.partition(":")
    if not colon or not rest:
        raise ValueError(
            f"{dataset_id!r} is no name with a prefix; expected one of {', '.join(sorted(_FACTORIES))}, and a colon."
        )
    factory = _FACTORIES.get(prefix)
    if factory is None:
        near = close_names(prefix, list(_FACTORIES))
        hint = f" Close names: {', '.join(near)}." if near else ""
        raise UnknownNameError(
            f"no data sets have the prefix {prefix!r}; those known are {', '.join(sorted(_FACTORIES))}.{hint}"
        )
    if isinstance(factory, str):
        module, _, attribute = factory.partition(":")
        factory = getattr(importlib.import_module(module), attribute)
    return factory(rest, **kwargs)
