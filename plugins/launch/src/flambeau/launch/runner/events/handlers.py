"""Where events go."""

from __future__ import annotations

import logging

__all__ = ["get_logging_handler"]

_log_handlers: dict[str, logging.Handler] = {"console": logging.StreamHandler(), "null": logging.NullHandler()}


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """The handler of a destination, "console" or "null"; distributions add others as entry points.

    Raises:
        KeyError: no entry point `events` of group `torchx.logger` and no handler has this name.
    """
    from flambeau.launch.util.entrypoints import load_group

    added = load_group("torchx.events.handlers") or {}
    if destination in added:
        handler: logging.Handler = added[destination]()
        return handler
    if destination not in _log_handlers:
        raise KeyError(f"events go to {', '.join([*_log_handlers, *added])}; there is no destination {destination!r}.")
    return _log_handlers[destination]
