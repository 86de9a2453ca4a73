"""Options of generation by one set of names, for all engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["standardized"]

_FORMER = {"max_tokens": "max_new_tokens", "n": "num_return_sequences"}


def standardized(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options by their common names, checked.

    Args:
        options: `max_new_tokens` and `num_return_sequences` may be called `max_tokens` and `n`, which then prevail.

    Raises:
        ValueError: a value is out of its range, or a temperature stands beside `do_sample=False`.
    """
    made = dict(options or {})
    for former, name in _FORMER.items():
        if former in made:
            made[name] = made.pop(former)
    _check(made)
    return made


def _check(options: Mapping[str, Any]) -> None:
    ranges: dict[str, tuple[Callable[[Any], bool], str]] = {
        "temperature": (lambda value: value >= 0, "0 or more"), "top_p": (lambda value: 0 <= value <= 1, "from 0 to 1"),
        "top_k": (lambda value: value > 0, "more than 0"),
        "repetition_penalty": (lambda value: value > 0, "more than 0"),
    }  # fmt: skip
    for name, (holds, said) in ranges.items():
        value = options.get(name)
        if value is not None and not holds(value):
            raise ValueError(f"{name} is {value}, expected {said}.")
    temperature = options.get("temperature")
    if options.get("do_sample") is False and temperature not in (None, 0):
        raise ValueError(
            f"temperature is {temperature} while do_sample=False takes the likeliest token; set temperature to 0, or "
            "do_sample to True."
        )
