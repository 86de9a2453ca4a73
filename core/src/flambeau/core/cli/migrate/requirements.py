"""Requirements on the upstream distributions, in files that list them, become requirements on ours.

==================================================  =====================================================
`requirements*.txt`, `constraints*.txt`, `*.in`     each line that is a requirement
`pyproject.toml`                                    dependencies, optional ones, groups, the build's, poetry's
`setup.cfg`                                         `install_requires`, `extras_require` and their like
`environment.yml`                                   what stands below `pip:`; packages of conda are reported
==================================================  =====================================================

Versions and extras go: they say nothing of our releases. Markers and comments stay. What cannot be rewritten safely
(hashes, sources of a repository) is reported and left.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flambeau.core.cli.migrate.rewrite import Change, Note, Rewritten
from flambeau.core.cli.migrate.table import DISTRIBUTIONS, SPLIT_DISTRIBUTIONS

_LISTED = re.compile(r"(.*[-_.])?(requirements|constraints)([-_.].*)?\.(txt|in)")
_NAME = r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
# Extras, versions or an address; then a marker and a comment, which stay.
_REQUIREMENT = re.compile(
    rf"(?P<before>\s*){_NAME}(?P<wanted>\s*(?:\[[^\]]*\])?\s*(?:@\s*\S+|[^;#@]*?))(?P<after>\s*(?:;[^#]*?)?(?:\s+#.*)?)"
)
_SOURCE = re.compile(r"\s*(?:-e\b|--editable\b|git\+|https?:).*?(?P<name>torch\w+|tensordict|fbgemm\w*|captum)\b.*")
_CONFIG_KEYS = re.compile(r"\s*(install_requires|setup_requires|tests_require)\s*=\s*(?P<value>.*)")
_POETRY_KEY = re.compile(rf"(?P<before>\s*[\"']?){_NAME}(?P<after>[\"']?\s*=\s*)(?P<value>.*)")
_TABLES = ("project", "project.optional-dependencies", "dependency-groups", "build-system")
_HASHED = "it is pinned by hash; put our distribution in its place by hand"
_BY_HAND = "it is taken from a repository; put our distribution in its place by hand"
_CONDA = "our distributions come by pip: move it below `- pip:`, as {}"
_SPLIT = "only {} of it is here, as {}; require that as well, or in its place where nothing else is used"


def lists_requirements(path: Path) -> bool:
    """Whether a file lists requirements, by its name."""
    name = path.name.lower()
    beside = path.parent.name.lower() in ("requirements", "constraints") and path.suffix in (".txt", ".in")
    return beside or name in _READERS or _LISTED.fullmatch(name) is not None


def rewrite_requirements(name: str, content: bytes) -> Rewritten:
    """Rewrite one file.

    Args:
        name: of the file, by which its form is known.
        content: of the file.

    Raises:
        ValueError: it is not UTF-8, or not TOML.
    """
    lines = content.decode("utf-8").splitlines(keepends=True)
    result = Rewritten(b"")
    chosen = _READERS.get(name.lower(), _every_line)(lines)
    kept = []
    for number, line in enumerate(lines, start=1):
        new = _line(line, number, chosen.get(number), result)
        if new is not None:
            kept.append(new)
    result.code = "".join(kept).encode()
    return result


# How one line is read: as a requirement, as strings in quotes, as poetry's `name = version`, or as a package of conda.
_AS_REQUIREMENT, _QUOTED, _POETRY, _OF_CONDA = "requirement", "quoted", "poetry", "conda"


def _line(line: str, number: int, reading: str | None, result: Rewritten) -> str | None:
    """The line as it becomes; None where it goes because an earlier one says the same."""
    if reading is None:
        return line
    text = line.rstrip("\r\n")
    end = line[len(text) :]
    if reading == _QUOTED:
        return re.sub(r"([\"'])(.*?)\1", lambda m: m[1] + (_changed(m[2], number, result) or m[2]) + m[1], text) + end
    if reading == _POETRY:
        return _poetry(text, number, result) + end
    prefix = re.match(r"\s*-\s+(?=[^-])", text) if reading == _OF_CONDA or text.lstrip().startswith("- ") else None
    lead = prefix[0] if prefix else ""
    if reading == _OF_CONDA:
        _report_conda(text.removeprefix(lead), number, result)
        return line
    if "--hash" in text or text.rstrip().endswith("\\"):
        if (found := _ours(text.split("==")[0].strip())) is not None:
            result.notes.append(Note(number, text.split("\\")[0].strip(), _HASHED))
            result.names.setdefault(found, number)
        return line
    said = {change.after for change in result.changes}
    new = _changed(text.removeprefix(lead), number, result)
    if new is None:
        return line
    return None if new.strip() in said else lead + new + end


def _changed(text: str, number: int, result: Rewritten) -> str | None:
    """A requirement as it becomes; None where it stays."""
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        source = _SOURCE.fullmatch(text)
        if source is not None and (source["name"] in SPLIT_DISTRIBUTIONS or _ours(source["name"])):
            result.notes.append(Note(number, text.strip(), _BY_HAND))
        return None
    if (part := SPLIT_DISTRIBUTIONS.get(_normalized(match["name"]))) is not None:
        result.notes.append(Note(number, text.strip(), _SPLIT.format(*part)))
        return None
    ours = _ours(match["name"])
    if ours is None:
        return None
    new = f"{match['before']}flambeau-{ours.partition('.')[2]}{match['after']}"
    result.changes.append(Change(number, text.strip(), new.strip()))
    result.names.setdefault(ours, number)
    return new


def _poetry(text: str, number: int, result: Rewritten) -> str:
    match = _POETRY_KEY.fullmatch(text)
    ours = _ours(match["name"]) if match else None
    if match is None or ours is None:
        return text
    value = re.sub(r"""(["'])[^"']*\1""", '"*"', match["value"], count=1)
    if match["value"].startswith("{"):  # a table: its version alone is replaced
        if not re.search(r"\bversion\s*=", match["value"]):
            result.notes.append(Note(number, text.strip(), _BY_HAND))
            return text
        value = re.sub(r"""(\bversion\s*=\s*)(["'])[^"']*\2""", r'\1"*"', match["value"])
    new = f"{match['before']}flambeau-{ours.partition('.')[2]}{match['after']}{value}"
    result.changes.append(Change(number, text.strip(), new.strip()))
    result.names.setdefault(ours, number)
    return new


def _report_conda(text: str, number: int, result: Rewritten) -> None:
    name = re.split(r"[\s=<>!~\[]", text.rpartition("::")[2].strip(), maxsplit=1)[0]
    ours = _ours(name)
    if ours is not None:
        result.notes.append(Note(number, text.strip(), _CONDA.format(f"flambeau-{ours.partition('.')[2]}")))
        result.names.setdefault(ours, number)


def _ours(name: str) -> str | None:
    """Our package, `flambeau.vision`, in place of an upstream distribution."""
    return DISTRIBUTIONS.get(_normalized(name))


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _every_line(lines: list[str]) -> dict[int, str]:
    return {number: _AS_REQUIREMENT for number, line in enumerate(lines, start=1) if not line.lstrip().startswith("#")}


def _of_setup_cfg(lines: list[str]) -> dict[int, str]:
    """Indented lines below the keys that list requirements."""
    found: dict[int, str] = {}
    section, listing = "", False
    for number, line in enumerate(lines, start=1):
        if line.startswith("["):
            section, listing = line.strip("[] \r\n"), False
        elif line[:1] not in (" ", "\t", "", "\n", "\r", "#"):
            listing = _CONFIG_KEYS.match(line) is not None or section == "options.extras_require"
        elif listing:
            found[number] = _AS_REQUIREMENT
    return found


def _of_environment(lines: list[str]) -> dict[int, str]:
    """Items of the list `dependencies`; those below `pip:` are requirements."""
    found: dict[int, str] = {}
    inside, pip_indent = False, -1
    for number, line in enumerate(lines, start=1):
        indent = len(line) - len(line.lstrip(" "))
        word = line.strip()
        if word and not word.startswith(("-", "#")) and indent == 0:
            inside = word.startswith("dependencies:")
        elif inside and re.fullmatch(r"-\s*pip\s*:", word):
            pip_indent = indent
        elif inside and word.startswith("- "):
            below = pip_indent >= 0 and indent > pip_indent
            pip_indent = pip_indent if below else -1
            found[number] = _AS_REQUIREMENT if below else _OF_CONDA
    return found


def _of_pyproject(lines: list[str]) -> dict[int, str]:
    """Lines that hold one of the document's requirements in quotes, and the keys of poetry's tables."""
    document = tomllib.loads("".join(lines))
    wanted = set(_requirements(document))
    found: dict[int, str] = {}
    table = ""
    for number, line in enumerate(lines, start=1):
        if header := re.match(r"\s*\[+([^\]]+)\]+\s*(#.*)?$", line):
            table = header[1].replace('"', "").replace(" ", "")
        elif re.fullmatch(r"tool\.poetry\.(group\.[^.]+\.)?(dev-)?dependencies", table):
            found[number] = _POETRY
        elif table in _TABLES and not re.match(r"\s*(name|description|keywords)\s*=", line):
            found |= dict.fromkeys([number] if _quotes(line, wanted) else [], _QUOTED)
    return found


def _quotes(line: str, texts: set[str]) -> bool:
    return any(f"{quote}{text}{quote}" in line for text in texts for quote in "\"'")


def _requirements(document: dict[str, Any]) -> Iterator[str]:
    project = document.get("project", {})
    groups = [project.get("dependencies"), document.get("build-system", {}).get("requires")]
    groups += [*project.get("optional-dependencies", {}).values(), *document.get("dependency-groups", {}).values()]
    yield from (item for group in groups if isinstance(group, list) for item in group if isinstance(item, str))


_READERS: dict[str, Callable[[list[str]], dict[int, str]]] = {
    "pyproject.toml": _of_pyproject,
    "setup.cfg": _of_setup_cfg,
    "environment.yml": _of_environment,
    "environment.yaml": _of_environment,
}
