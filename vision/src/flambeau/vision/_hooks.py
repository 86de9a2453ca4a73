"""What vision tells the plugin manager in code: which codecs read and write image files here."""

from __future__ import annotations

from typing import Any

from flambeau.core import hookimpl


@hookimpl
def flambeau_doctor() -> list[dict[str, Any]]:
    """One line for `flambeau doctor`; every answer is a sound one, for Pillow reads and writes all formats."""
    from flambeau.vision.io._native import objection, versions

    why = objection()
    detail = f"Pillow serves all formats ({why})" if why else f"{versions()}; Pillow serves the other formats"
    return [{"name": "image codecs", "ok": True, "detail": detail}]
