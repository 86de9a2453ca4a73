"""An argparse parser that is filled in when it is used, takes its action from anywhere, and knows what was meant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from flambeau.core.errors import close_names
from flambeau.core.terminal import printable

Configure = Callable[["Parser"], None]


class Parser(argparse.ArgumentParser):
    """ArgumentParser with three additions.

    * `setup`, if given, is called once, when the parser is first asked to parse: the modules behind commands that were
      not chosen are never imported.
    * `actions(default=...)` declares the words that may follow (`weights list`, `weights fetch`); where none is given
      the default holds, and options may stand before the action.
    * An unknown action is answered with the nearest known ones.
    """

    def __init__(self, *args: Any, setup: Configure | None = None, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)  # an abbreviation breaks the day another option is added
        super().__init__(*args, **options)
        self.completes: str | None = None  # kind of the names that its arguments take, for the Tab key
        self._setup = setup
        self._group: argparse._SubParsersAction[Parser] | None = None
        self._default: str | None = None

    def actions(self, *, metavar: str = "ACTION", default: str | None = None) -> argparse._SubParsersAction[Parser]:
        """Make this parser take actions; `add_parser(name, help=..., setup=...)` of the result declares one."""
        self._group = self.add_subparsers(
            metavar=metavar, title=f"{metavar.lower()}s", required=default is None, parser_class=type(self)
        )
        self._default = default
        return self._group

    @property
    def children(self) -> Mapping[str, Parser]:
        """The parsers of the actions, by name."""
        return {} if self._group is None else self._group.choices or {}

    def complete_setup(self) -> None:
        """Run the deferred part of the set-up, if it has not run yet."""
        if self._setup is not None:
            setup, self._setup = self._setup, None
            setup(self)

    def parse_known_args(  # type: ignore[override]  # the overloads of typeshed say nothing more here
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As in argparse, after the deferred set-up and with the action put first."""
        self.complete_setup()
        words = list(sys.argv[1:] if args is None else args)
        if self.children:
            words = self._action_first(words)
        return super().parse_known_args(words, namespace)

    def _action_first(self, words: list[str]) -> list[str]:
        if {"-h", "--help", "--version"} & set(words[:1]):
            return words
        position = next((i for i, word in enumerate(words) if word in self.children), None)
        if position is not None and all(word.startswith("-") for word in words[:position]):
            return [words[position], *words[:position], *words[position + 1 :]]
        if not words or words[0].startswith("-"):
            return words if self._default is None else [self._default, *words]
        return self.error(unknown(words[0], self.children, "action"))

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where help is found; exit with 2."""
        self.exit(2, printable(f"{self.prog}: error: {message}\nSee `{self.prog} --help`.\n"))


def unknown(name: str, known: Iterable[str], what: str) -> str:
    """A sentence about a word nobody knows, with the nearest known ones, or all of them where none is near."""
    near = close_names(name, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"expected one of {', '.join(sorted(known))}."
    return f"unknown {what} {name!r}; {hint}"


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option that every listing has."""
    parser.add_argument("--json", action="store_true", help="print JSON with a stable schema")
