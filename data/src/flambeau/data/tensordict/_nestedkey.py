"""The type of keys."""

from __future__ import annotations

from typing import TypeAlias

NestedKey: TypeAlias = str | tuple["NestedKey", ...]
