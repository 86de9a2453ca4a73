"""Tables on disk with checkpoints: after a crash at any moment, what is there is the last checkpoint, whole.

A folder holds a file of blocks for each table (`_blocks`), of each the places of its blocks at the last checkpoint,
and `manifest.json`, which names them. A checkpoint writes blocks, then places, then the manifest by an atomic rename:
before the rename the old checkpoint holds, after it the new one. Nothing that the manifest names is ever overwritten.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import filelock
import numpy as np

from flambeau.core import files
from flambeau.core.errors import FlambeauError
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.tbe.ssd._blocks import BlockFile, Bytes, Rows

__all__ = ["DamagedStoreError", "StoreBusyError", "StoredTable", "TableStore"]

_FORMAT = 1


class DamagedStoreError(FlambeauError, OSError):
    """A folder of tables is not as a checkpoint leaves it."""


class StoreBusyError(FlambeauError, OSError):
    """Another process has the folder of tables open."""


@dataclass(frozen=True)
class StoredTable:
    """What is written down of a table, and must be the same when it is opened again.

    Args:
        rows: how many; of a table that grows, with how many it begins.
        record_bytes: of a row with all that belongs to it.
        facts: what else its rows mean.
        grows: whether rows are added.
    """

    rows: int
    record_bytes: int
    facts: Mapping[str, Any]
    grows: bool = False


class TableStore:
    """A folder of tables.

    Args:
        folder: made where there is none; opened where there is one.
        tables: by name; those of a folder that is opened must be the same.
        initial: of each table, what computes the rows that were never written.
        seed: of initial rows, where the folder is new; one that is opened has its own.
        resident_bytes: of all tables together, see `BlockFile`.

    Raises:
        OptionError: the folder holds other tables.
        StoreBusyError: another process has it open.
        DamagedStoreError: a file is missing, or was changed by something else.
    """

    def __init__(
        self,
        folder: Path,
        tables: Mapping[str, StoredTable],
        initial: Mapping[str, Callable[[Rows], Bytes]],
        seed: int = 0,
        resident_bytes: int = 1 << 30,
    ) -> None:
        self.folder, self.seed = folder, seed
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = filelock.FileLock(folder / "lock")
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise StoreBusyError(
                f"{folder} is open in another process or module; close that one, or choose another folder."
            ) from None
        except (OSError, NotImplementedError):
            pass  # a file system without locks
        try:
            self._open(dict(tables), initial, resident_bytes)
        except BaseException:
            self._lock.release()
            raise

    def _open(
        self, tables: dict[str, StoredTable], initial: Mapping[str, Callable[[Rows], Bytes]], resident_bytes: int
    ) -> None:
        described = {name: asdict(table) for name, table in tables.items()}
        manifest = self._read_manifest()
        self.generation: int = manifest["generation"] if manifest else 0
        self.note: bytes = b""
        self._named: dict[str, dict[str, Any]] = manifest["files"] if manifest else {}
        if manifest:
            self.seed = manifest["seed"]
            if manifest["tables"] != json.loads(json.dumps(described)):
                raise OptionError(
                    f"{self.folder} holds tables {manifest['tables']}; expected {described}. Choose another folder, or "
                    "make the tables as they were."
                )
            self.note = self._content("note")
        self._described = described
        self.tables: dict[str, BlockFile] = {}
        for name, table in tables.items():
            rows, places = table.rows, None
            if name in self._named:
                places = np.frombuffer(self._content(name), np.uint8).copy()
                rows = self._named[name]["rows"]
            share = resident_bytes // len(tables)
            path = self.folder / f"{files.safe_name(name)}.rows"
            self.tables[name] = BlockFile(path, table.record_bytes, rows, initial[name], places, share)
        self._remove_unnamed()

    # ----- what is written down ---------------------------------------------------------------------------------------

    def _read_manifest(self) -> dict[str, Any] | None:
        path = self.folder / "manifest.json"
        if not path.exists():
            return None
        try:
            found: dict[str, Any] = json.loads(path.read_text())
        except ValueError as error:
            raise DamagedStoreError(f"{path} is no manifest: {error}.") from error
        if found.get("format") != _FORMAT:
            raise DamagedStoreError(f"{path} has format {found.get('format')}; this version reads {_FORMAT}.")
        return found

    def _content(self, name: str) -> bytes:
        named = self._named[name]
        path = self.folder / named["file"]
        try:
            found: bytes = path.read_bytes()
        except FileNotFoundError as error:
            raise DamagedStoreError(f"{path} is missing, which the manifest names; restore the folder.") from error
        if zlib.crc32(found) != named["crc32"]:
            raise DamagedStoreError(f"{path} was changed since the checkpoint that wrote it; restore the folder.")
        return found

    def _write(self, name: str, content: bytes, **more: Any) -> dict[str, Any]:
        file = f"{files.safe_name(name)}.{self.generation + 1}"
        files.write_atomic(self.folder / file, content)
        return {"file": file, "crc32": zlib.crc32(content), **more}

    def _remove_unnamed(self) -> None:
        """What an interrupted checkpoint left, and what the last one replaced."""
        kept = {named["file"] for named in self._named.values()}
        for path in self.folder.iterdir():
            generation = path.suffix[1:]
            if (generation.isdecimal() and path.name not in kept) or path.suffix == ".tmp":
                path.unlink(missing_ok=True)

    # ----- checkpoints ------------------------------------------------------------------------------------------------

    def commit(self, note: bytes = b"") -> None:
        """Make what the tables hold now the checkpoint, and a note with them.

        Args:
            note: given back by `note` when the folder is opened again; it belongs to this checkpoint alone.

        Raises:
            OSError: the disk refused; the old checkpoint holds.
        """
        if any(table.settle is not None for table in self.tables.values()):
            self._settle()
        named = dict(self._named)
        for name, table in self.tables.items():
            if table.changed or name not in named:
                named[name] = self._write(name, table.sync().tobytes(), rows=table.rows)
        named["note"] = self._write("note", note)
        manifest = {
            "format": _FORMAT, "generation": self.generation + 1, "seed": self.seed, "tables": self._described,
            "files": named,
        }  # fmt: skip
        files.sync_directory(self.folder)
        # What interrupts it may come before the rename or after it. Then the next write finds out which checkpoint
        # holds, before it touches a block.
        for table in self.tables.values():
            table.settle = self._settle
        files.write_atomic(self.folder / "manifest.json", json.dumps(manifest, indent=1))
        self._committed(named, note)
        self._remove_unnamed()

    def _committed(self, named: dict[str, dict[str, Any]], note: bytes) -> None:
        for table in self.tables.values():
            table.committed()
        self.generation, self._named, self.note = self.generation + 1, named, note
        for table in self.tables.values():
            table.settle = None

    def _settle(self) -> None:
        manifest = self._read_manifest()
        if manifest is not None and manifest["generation"] > self.generation:
            named = self._named = manifest["files"]
            self._committed(named, self._content("note"))
        for table in self.tables.values():
            table.settle = None

    def close(self) -> None:
        """Let go of the files and the lock; what was not committed is lost."""
        for table in self.tables.values():
            table.close()
        self._lock.release()
