"""`flambeau new-plugin`: write a plugin project that works, from the template beside this module.

The template is a folder of files. In the content of those that end in `.in`, and in all paths, `@word@` is replaced by
the answer of that name (see `Answers.words`); the suffix goes. All other files are copied as they are.

What was written is kept in the project, in `.flambeau-plugin.json`: the answers, and a SHA-256 of each file. With it,
`--update` applies a later template: files that the author has not touched follow the template, files that only the
author has changed stay, and where both have changed nothing at all is written and the files are listed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flambeau.core.cli.parser import Parser
from flambeau.core.errors import CommandError
from flambeau.core.files import write_atomic

TEMPLATE = Path(__file__).with_name("template")
RECORD = ".flambeau-plugin.json"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_WORD = re.compile(r"@([a-z]+)@")


@dataclass(frozen=True)
class Answers:
    """What the template is filled with.

    Raises:
        CommandError: a name that is malformed, or that a first-party plugin or a command has.
    """

    name: str
    author: str

    def __post_init__(self) -> None:
        from flambeau.core.cli.commands import BUILT_IN
        from flambeau.core.plugins.plugin import FIRST_PARTY

        if not _NAME.fullmatch(self.name):
            raise CommandError(
                f"{self.name!r} is no name for a plugin; expected lower-case letters and digits in parts joined "
                "by '-', such as my-plugin."
            )
        if self.name in {*FIRST_PARTY, "core", *(command.name for command in BUILT_IN)}:
            raise CommandError(f"{self.name!r} is a name of Flambeau's own; choose another.")

    def words(self) -> dict[str, str]:
        """What replaces each `@word@` of the template."""
        snake = self.name.replace("-", "_")
        return {
            "name": self.name,
            "author": self.author,
            "distribution": f"flambeau-plugin-{self.name}",
            "package": f"flambeau_plugin_{snake}",
            "namespace": f"flambeau_{snake}",
        }


def configure(parser: Parser) -> None:
    """Add the name and where to write."""
    parser.add_argument("name", metavar="NAME", help="the plugin's name, such as my-plugin")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="folder to write (default: flambeau-plugin-NAME)")
    parser.add_argument("--author", help="whose copyright the licence states (default: the authors of the plugin)")
    parser.add_argument("--update", action="store_true", help="apply today's template to a project written earlier")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write a project, or bring one up to date."""
    if arguments.update:
        return update(_project(arguments), arguments.name)
    answers = Answers(arguments.name, arguments.author or f"the authors of flambeau-plugin-{arguments.name}")
    folder = arguments.directory or Path(answers.words()["distribution"])
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(f"{folder} exists and is not empty; choose another --directory, or use --update.")
    files = render(answers)
    write(folder, answers, files)
    print(f"{len(files)} files are written to {folder}. To try the plugin:\n")
    print(f"  cd {folder}\n  {sys.executable} -m pip install scikit-build-core cmake ninja")
    print(f"  {sys.executable} -m pip install --no-build-isolation -e '.[tests]'\n  {sys.executable} -m pytest")
    print(f"  flambeau plugins show {arguments.name}")
    return 0


def render(answers: Answers) -> dict[str, bytes]:
    """The project's files: path below its folder, with `/` between parts, -> content."""
    words = answers.words()
    files = {}
    for path in sorted(TEMPLATE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            if path.suffix == ".in":
                content = _fill(content.decode(), words).encode()
            files[_fill(path.relative_to(TEMPLATE).as_posix().removesuffix(".in"), words)] = content
    return files


def write(folder: Path, answers: Answers, files: Mapping[str, bytes], *, only: set[str] | None = None) -> None:
    """Write the project's files (all, or only some), and the record of what the template gave."""
    for name, content in files.items():
        if only is None or name in only:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, content)
    record = {"answers": asdict(answers), "files": {name: _digest(content) for name, content in sorted(files.items())}}
    write_atomic(folder / RECORD, json.dumps(record, indent=2) + "\n")


def update(folder: Path, name: str) -> int:
    """Apply the template to a project; writes nothing where that would lose an author's change.

    Raises:
        CommandError: the folder holds no such project, or author and template have both changed a file.
    """
    record = _read_record(folder)
    answers = Answers(**record["answers"])
    if answers.name != name:
        raise CommandError(f"{folder} holds the plugin {answers.name!r}, not {name!r}.")
    files, given = render(answers), record["files"]
    moved = {path for path, content in files.items() if _digest(content) != given.get(path)}
    there = {path: _digest(found.read_bytes()) for path in files if (found := folder / path).is_file()}
    current = {path for path in moved if there.get(path) == _digest(files[path])}
    # A file that was written once and is gone now was removed on purpose.
    removed = {path for path in moved if path in given and path not in there}
    conflicts = sorted(p for p in moved - current - removed if p in there and there[p] != given.get(p))
    if conflicts:
        raise CommandError(
            f"nothing is written: the template has changed these files, and so have you: {', '.join(conflicts)}. "
            f"Move your version aside, run this again, and bring your change into the new one."
        )
    chosen = moved - current - removed
    write(folder, answers, files, only=chosen)
    for path in sorted(chosen):
        print(f"{'written' if path not in there else 'updated'}: {path}")
    for path in sorted(set(given) - set(files)):
        print(f"no longer in the template: {path}")
    print(f"{len(chosen)} files follow the template.")
    return 0


def _project(arguments: argparse.Namespace) -> Path:
    default = Path() if Path(RECORD).is_file() else Path(f"flambeau-plugin-{arguments.name}")
    folder: Path = arguments.directory or default
    return folder


def _read_record(folder: Path) -> dict[str, Any]:
    path = folder / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        known = {"answers": dict(record["answers"]), "files": dict(record["files"])}
    except FileNotFoundError:
        raise CommandError(f"{folder} was not written by `flambeau new-plugin`: it has no {RECORD}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} is damaged ({error}); restore it from the project's history.") from error
    return known


def _fill(text: str, words: Mapping[str, str]) -> str:
    """Replace `@word@` for the words there are; anything else between at-signs stays."""
    return _WORD.sub(lambda match: words.get(match[1], match[0]), text)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
