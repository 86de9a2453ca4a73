"""A differential suite whose peer cannot be beside us: its outcomes come from a file.

`upstream/record_torchtext.py` runs the cells in an environment with the peer and writes what came of them;
`RecordedSuite` runs the same cells on our library and compares. A cell that is not in the file fails.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from flambeau.core.testing.differential import Cell, Library, Outcome, Suite, execute
from flambeau.core.testing.differential.comparison import findings
from flambeau.core.testing.differential.execution import Failure


class RecordedSuite(Suite):
    """Compares with outcomes on record.

    Args:
        name: of the suite.
        ours: our library.
        peer: the name of the peer's root module.
        outcomes: file that `write_outcomes` wrote.
        **options: see `Suite`.
    """

    def __init__(self, name: str, *, ours: str, peer: str, outcomes: Path, **options: Any) -> None:
        super().__init__(name, ours=ours, peer=peer, roots=(ours, peer), **options)
        self._outcomes = outcomes
        self._read: dict[str, Outcome] | None = None

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The peer's, by name of the cell; read when first asked for."""
        if self._read is None:
            self._read = read_outcomes(self._outcomes)
        return self._read

    def _findings(self, cell: Cell) -> list[str]:
        if cell.id not in self.outcomes:
            return [f"no outcome is on record in {self._outcomes.name}; run record_torchtext.py"]
        ours = Library(self.ours, ours=True)
        try:
            outcome = execute(cell, ours, roots=self.roots, describers=self.describers, files=self.files)
        finally:
            ours.close()
        return findings(outcome, self.outcomes[cell.id], rtol=self.rtol, atol=self.atol)


def record(suite: Suite, cells: Iterable[Cell]) -> dict[str, Outcome]:
    """Run cells of a suite on its peer."""
    found = {}
    for cell in cells:
        library = Library(suite.peer, ours=False)
        try:
            found[cell.id] = execute(cell, library, roots=suite.roots, describers=suite.describers, files=suite.files)
        finally:
            library.close()
    return found


def write_outcomes(path: Path, outcomes: dict[str, Outcome], about: dict[str, str]) -> None:
    """Write outcomes as compressed JSON, the same bytes for the same outcomes."""
    content = {"about": about, "outcomes": {name: _packed_outcome(one) for name, one in sorted(outcomes.items())}}
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, indent=0)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def read_outcomes(path: Path) -> dict[str, Outcome]:
    """What `write_outcomes` wrote."""
    content = json.loads(gzip.decompress(path.read_bytes()))
    return {name: _unpacked_outcome(one) for name, one in content["outcomes"].items()}


def _packed_outcome(outcome: Outcome) -> dict[str, Any]:
    if outcome.failure is not None:
        return {"failure": {"classes": list(outcome.failure.classes), "message": outcome.failure.message}}
    parts = {"result": outcome.result, "inputs": outcome.inputs, "printed": outcome.printed}
    packed = {name: _packed(part) for name, part in parts.items() if part not in ({}, "")}
    return {**packed, **({"files": _packed(dict(outcome.files))} if outcome.files else {})}


def _unpacked_outcome(packed: dict[str, Any]) -> Outcome:
    if failure := packed.get("failure"):
        return Outcome(failure=Failure(tuple(failure["classes"]), failure["message"]))
    parts = {name: _unpacked(part) for name, part in packed.items()}
    return Outcome(
        result=parts.get("result"),
        inputs=parts.get("inputs", {}),
        printed=parts.get("printed", ""),
        files=parts.get("files", {}),
    )


def _packed(value: Any) -> Any:
    """A record as JSON; what JSON has no kind for becomes an object with one key that begins with "!"."""
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        data = value.contiguous().view(-1).view(torch.uint8) if value.numel() else torch.empty(0, dtype=torch.uint8)
        text = base64.b64encode(bytes(data.tolist())).decode()
        return {"!tensor": [dtype, list(value.shape), text]}
    if isinstance(value, tuple):
        return {"!tuple": [_packed(part) for part in value]}
    if isinstance(value, list):
        return [_packed(part) for part in value]
    if isinstance(value, dict):
        return {"!dict": [[_packed(key), _packed(part)] for key, part in value.items()]}
    if isinstance(value, bytes):
        return {"!bytes": base64.b64encode(value).decode()}
    if isinstance(value, complex):
        return {"!complex": [value.real, value.imag]}
    if value is Ellipsis:
        return {"!ellipsis": 0}
    return value


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(part) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "!tensor":
        dtype, shape, text = content
        data = bytearray(base64.b64decode(text))
        kind_of = getattr(torch, dtype)
        return torch.frombuffer(data, dtype=kind_of).reshape(shape) if data else torch.empty(shape, dtype=kind_of)
    if kind == "!tuple":
        return tuple(_unpacked(part) for part in content)
    if kind == "!dict":
        return {_unpacked(key): _unpacked(part) for key, part in content}
    if kind == "!bytes":
        return base64.b64decode(content)
    return complex(*content) if kind == "!complex" else ...
