"""Archives as `torch-model-archiver` makes them."""

from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any


def manifest_of(**facts: Any) -> dict[str, Any]:
    """A manifest with these facts of its model."""
    model = {"modelName": "net", "modelVersion": "1.0", "handler": "handler.py", **facts}
    return {"createdOn": "01/02/2026 03:04:05", "runtime": "python", "archiverVersion": "0.12.0", "model": model}


def archive(path: Path, files: dict[str, str | bytes], manifest: dict[str, Any] | None = None) -> Path:
    """Write an archive of the kind that its suffix names: `.mar`, `.tar.gz`, or none for a folder."""
    contents = dict(files)
    contents["MAR-INF/MANIFEST.json"] = json.dumps(manifest_of() if manifest is None else manifest)
    if path.suffix == ".mar":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in contents.items():
                file.writestr(name, content)
        return path
    folder = path if path.suffix == "" else path.with_suffix("").with_suffix("")
    for name, content in contents.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path, "w:gz") as file:
            file.add(folder, folder.name)
    return path
