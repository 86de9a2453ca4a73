"""Every dataset in miniature, published on a loopback server, with its module's tables pointing there."""

import hashlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flambeau.core.hub import read_archive
from flambeau.core.testing.server import FileServer
from flambeau.text._miniatures import write_miniature
from flambeau.text.datasets._families import base_name

# Tables by which files are found when the first address fails; no test asks the real ones.
_OTHER = {"_COPY_URL": "absent/%s", "_INNER_URL": "absent", "_WMT": "absent", "_RAW_URL": "task1/raw/%s.gz"}


@dataclass
class Published:
    """A dataset in miniature: what it holds, where it is served, and where it is to be put."""

    name: str
    module: ModuleType
    items: dict[str, list[Any]]
    server: FileServer
    files: Path
    root: Path

    @property
    def folder(self) -> Path:
        return self.root / "datasets" / self.name

    @property
    def splits(self) -> tuple[str, ...]:
        return self.module._SPLITS

    def pipe(self, split: str, **options: Any) -> Any:
        function = getattr(self.module, self.name)
        if self.name in ("QQP", "EnWik9", "CC100"):
            return function(str(self.root), **options)
        return function(root=str(self.root), split=split, **options)

    def indexed(self, split: str | None = None, **options: Any) -> Any:
        return getattr(self.module, f"{self.name}Items")(self.root, split, **options)


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Publish a dataset's miniature by name."""
    servers = []

    def make(name: str) -> Published:
        module = import_module(f"flambeau.text.datasets.{name.lower()}")
        files = tmp_path / "published" / name
        items = write_miniature(name, files)
        bodies = {path.relative_to(files).as_posix(): path.read_bytes() for path in files.rglob("*") if path.is_file()}
        server = FileServer(bodies)
        server.__enter__()
        servers.append(server)
        for attribute, value in tables(module, server, bodies).items():
            monkeypatch.setattr(module, attribute, value)
        return Published(name, module, items, server, files, tmp_path / "root")

    yield make
    for server in servers:
        server.__exit__(None, None, None)


def tables(module: ModuleType, server: FileServer, bodies: dict[str, bytes]) -> dict[str, Any]:
    """The module's tables with the server's addresses and the miniature's digests."""
    changed: dict[str, Any] = {}
    urls, digests = {}, {}
    for split in module._SPLITS:
        for download in module._plan(split).source.downloads:
            urls[download.url] = server.url(download.path)
            if download.digest:
                kind = "md5" if len(download.digest) == 32 else "sha256"
                digests[download.digest] = hashlib.new(kind, bodies[download.path]).hexdigest()
    for attribute in ("URL", "SPLIT_LIST"):
        if hasattr(module, attribute):
            changed[attribute] = replaced(getattr(module, attribute), urls)
    if "%s" in str(module.URL):
        changed["URL"] = server.url(base_name(module.URL))
    changed["MD5"] = replaced(module.MD5, digests)
    changed |= {name: server.url(path) for name, path in _OTHER.items() if hasattr(module, name)}
    changed |= {name: () for name in ("_COPIES", "_MIRRORS") if hasattr(module, name)}
    if hasattr(module, "_EXTRACTED_FILES_MD5"):
        changed["_EXTRACTED_FILES_MD5"] = contents(module, bodies)
    return changed


def contents(module: ModuleType, bodies: dict[str, bytes]) -> dict[str, str]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, module._PATH)
        archive.write_bytes(bodies[module._PATH])
        found = {name: hashlib.md5(stream.read()).hexdigest() for name, stream in read_archive(archive)}
    return {split: found[name] for split, name in module._EXTRACTED_FILES.items()}


def replaced(table: Any, by: dict[str, str]) -> Any:
    if isinstance(table, dict):
        return {key: by.get(value, value) for key, value in table.items()}
    return by.get(table, table)
