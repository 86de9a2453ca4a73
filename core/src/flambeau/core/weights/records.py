"""Weights as registries and manifests record them: plain JSON values, short, readable without importing a plugin."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any

from flambeau.core.weights.enums import WeightsEnum, member_aliases
from flambeau.core.weights.facts import Weights
from flambeau.core.weights.transforms import LazyTransforms


def enum_target(enum: type[WeightsEnum]) -> str:
    """Where an enum is found: `"package.module:Class"`."""
    return f"{enum.__module__}:{enum.__qualname__}"


def weights_record(model: str, member: WeightsEnum) -> dict[str, Any]:
    """One member as a manifest's table `weights` holds it.

    Long lists of labels become their number: `categories` turns into `num_categories`.
    """
    facts: Weights = member.value
    aliases = member_aliases(member)
    record = {
        "model": model,
        "enum": enum_target(type(member)),
        "name": member.name,
        "url": facts.url,
        "sha256": facts.sha256,
        "size": facts.size,
        "mirrors": list(facts.mirrors),
        "format": facts.format,
        "default": "DEFAULT" in (member.name, *aliases),
        "aliases": aliases,
        "meta": short_meta(facts.meta),
        "transforms": transforms_record(facts),
        "license": facts.meta.get("license"),
    }
    if facts.safe_globals:
        record["safe_globals"] = list(facts.safe_globals)
    return record


def short_meta(meta: dict[str, Any], *, most_items: int = 32) -> dict[str, Any]:
    """`meta` without long lists: a list under `key` becomes its length under `num_key`. Members become their names."""
    short: dict[str, Any] = {}
    for key, value in meta.items():
        if isinstance(value, (list, tuple)) and (len(value) > most_items or key == "categories"):
            short[f"num_{key}"] = len(value)
        elif isinstance(value, WeightsEnum):
            short[key] = repr(value)
        else:
            short[key] = value
    return short


def transforms_record(facts: Weights) -> dict[str, Any] | None:
    """`{target, params}` of the preprocessing, None where it is a callable that cannot be named."""
    transforms = facts.declared_transforms
    if isinstance(transforms, LazyTransforms):
        return {"target": transforms.target, "params": _plain(transforms.params)}
    params: dict[str, Any] = {}
    if isinstance(transforms, partial) and not transforms.args:
        params, transforms = dict(transforms.keywords), transforms.func
    name = getattr(transforms, "__qualname__", "<")
    if "<" in name:  # a lambda, a local function or an instance
        return None
    return {"target": f"{transforms.__module__}:{name}", "params": _plain(params)}


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Arguments as JSON holds them: an enum's member is recorded by its value."""
    return {key: value.value if isinstance(value, Enum) else value for key, value in params.items()}
