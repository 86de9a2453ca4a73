"""Options that configuration files can hold, and options that may be given once."""

from __future__ import annotations

from argparse import Action, ArgumentError, ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

__all__ = ["ArgOnceAction", "torchxconfig", "torchxconfig_run"]


class torchxconfig(Action):
    """An option whose default section `[cli:VERB]` of a configuration file holds, under the option's long name.

    Args:
        subcmd: the verb.
        dest: name of the value.
        option_strings: as argparse has them.
        required: whether it must be given, here or there.
        default: without a file.
    """

    called_args: set[str] = set()
    _subcmd_configs: dict[str, dict[str, str]] = {}

    def __init__(
        self,
        subcmd: str,
        dest: str,
        option_strings: Sequence[str],
        required: bool = False,
        default: Any = None,
        **kwargs: Any,
    ) -> None:
        from flambeau.launch.runner import config

        configured = self._subcmd_configs.setdefault(subcmd, config.get_configs("cli", subcmd))
        value = configured.get(dest, default)
        super().__init__(
            dest=dest, option_strings=option_strings, default=value, required=required and value is None, **kwargs
        )

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Take the value, once."""
        _take_once(self, namespace, values, option_string)


class torchxconfig_run(torchxconfig):
    """The same for `run`."""

    def __init__(
        self, dest: str, option_strings: Sequence[str], required: bool = False, default: Any = None, **kwargs: Any
    ) -> None:
        super().__init__("run", dest, option_strings, required, default, **kwargs)


class ArgOnceAction(Action):
    """An option that is an error the second time, where argparse would silently take the last."""

    called_args: set[str] = set()

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Take the value, once."""
        _take_once(self, namespace, values, option_string)


def _take_once(action: Action, namespace: Namespace, values: Any, option: str | None) -> None:
    # By namespaces, not by processes: a program may parse several command lines.
    given = namespace.__dict__.setdefault("_given_once", set())
    if action.dest in given:
        raise ArgumentError(action, f"{option} is given twice; which one is meant?")
    given.add(action.dest)
    setattr(namespace, action.dest, values)
