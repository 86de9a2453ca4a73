"""The plugin manifest: a JSON file that says what a plugin offers, so that nothing is imported to list it.

Reading (`read_manifest`) is plain `json` and a few type checks. The whole schema (`Manifest`, `validate_manifest`)
needs pydantic and is loaded when asked for. `python -m flambeau.core.manifest build PACKAGE` writes the file from the
code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.core.manifest.reading import MANIFEST_NAME as MANIFEST_NAME
    from flambeau.core.manifest.reading import SCHEMA_VERSION as SCHEMA_VERSION
    from flambeau.core.manifest.reading import read_manifest as read_manifest
    from flambeau.core.manifest.schema import Manifest as Manifest
    from flambeau.core.manifest.schema import validate_manifest as validate_manifest

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "reading": ("MANIFEST_NAME", "SCHEMA_VERSION", "read_manifest"),
        "schema": ("Manifest", "validate_manifest"),
    },
)
