"""Notebooks as one Python source: code cells in order, joined by marker lines, and taken apart again.

A name imported in one cell is used in others, so that all cells are rewritten together. Lines that are IPython's and no
Python (`%matplotlib inline`, `!pip install x`, `name?`) are set aside as comments-bearing `pass` statements meanwhile.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from dataclasses import dataclass
from typing import Any

_MAGIC = re.compile(r"^(?P<indent>[ \t]*)(?P<text>(?:[%!?]|[\w.,\[\] \t]+=[ \t]*[%!](?!=)).*|[\w.]+\?{1,2}[ \t]*)$")
_PYTHON_CELL_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
_MARKER = "# flambeau-migrate cell {}\n"
_SET_ASIDE = "pass  # flambeau-migrate line {}"


@dataclass
class Notebook:
    """A notebook, the Python source of its cells, and what has to be put back into them."""

    document: dict[str, Any]
    indent: int | str
    ascii: bool  # characters beyond ASCII are written as escapes
    end: str
    source: str
    cells: list[int]  # indices of the cells that are in the source
    aside: list[str]  # IPython's lines, in order
    skipped: list[tuple[int, str]]  # index of a cell that is left alone, and why


def read(content: bytes) -> Notebook:
    """Take a notebook's code cells out of its JSON.

    Raises:
        ValueError: the file is no notebook of format 4.
    """
    text = content.decode("utf-8")
    document = json.loads(text)
    if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
        raise ValueError("no list of cells; expected a notebook of format 4 (convert older ones with nbconvert)")
    indent = re.match(r"\{\r?\n([ \t]+)", text)
    end = "\n" if text.endswith("\n") else ""
    notebook = Notebook(document, _indent(indent[1]) if indent else 1, text.isascii(), end, "", [], [], [])
    for index, cell in enumerate(document["cells"]):
        if cell.get("cell_type") == "code":
            _add(notebook, index, "".join(cell.get("source", "")))
    return notebook


def write(notebook: Notebook, source: str) -> bytes:
    """The notebook's file with its cells filled from a rewritten source; everything else as it was."""
    parts = re.split(re.escape(_MARKER).replace(r"\{\}", r"(\d+)"), source)
    for number, text in zip(parts[1::2], parts[2::2], strict=True):
        cell = notebook.document["cells"][int(number)]
        text = re.sub(_SET_ASIDE.format(r"(\d+)"), lambda match: notebook.aside[int(match[1])], text)
        text = text.removesuffix("\n")
        cell["source"] = text.splitlines(keepends=True) if isinstance(cell["source"], list) else text
    text = json.dumps(notebook.document, indent=notebook.indent, ensure_ascii=notebook.ascii)
    return (text + notebook.end).encode()


def cell_of(source: str, line: int) -> tuple[int, int]:
    """Where a line of the joined source is: the cell's number in the notebook and the line in it, both from 1."""
    above = source.split("\n")[:line]
    start = max(i for i, text in enumerate(above) if re.fullmatch(_MARKER.strip().format(r"\d+"), text))
    return int(above[start].rpartition(" ")[2]) + 1, line - start - 1


def _add(notebook: Notebook, index: int, text: str) -> None:
    first = text.lstrip().split("\n", 1)[0]
    if first.startswith("%%") and not first.startswith(_PYTHON_CELL_MAGICS):
        return  # another language
    aside = list(notebook.aside)
    if _fault(text):  # perhaps because of IPython's own lines
        text = "\n".join(_set_aside(line, aside) for line in text.split("\n"))
    if fault := _fault(text):
        notebook.skipped.append((index, fault))
        return
    notebook.aside = aside
    notebook.cells.append(index)
    notebook.source += _MARKER.format(index) + text + "\n"


def _set_aside(line: str, aside: list[str]) -> str:
    match = _MAGIC.match(line)
    if not match:
        return line
    aside.append(match["text"])
    return match["indent"] + _SET_ASIDE.format(len(aside) - 1)


def _fault(source: str) -> str | None:
    """Why a cell is no Python, None if it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in the user's strings
        try:
            compile(source, "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except (SyntaxError, ValueError) as error:
            return f"not Python: {error}"
    return None


def _indent(text: str) -> int | str:
    return len(text) if set(text) == {" "} else text
