"""Applications as dictionaries of plain values, and back."""

from __future__ import annotations

from typing import Any

from flambeau.launch.specs.apps import AppDef, RetryPolicy, Role
from flambeau.launch.specs.mounts import BindMount, DeviceMount, VolumeMount
from flambeau.launch.specs.resources import Resource

__all__ = ["app_from_dict", "role_from_dict"]


def app_from_dict(fields: dict[str, Any]) -> AppDef:
    """The application that `dataclasses.asdict` took apart."""
    return AppDef(fields["name"], [role_from_dict(role) for role in fields["roles"]], fields["metadata"])


def role_from_dict(fields: dict[str, Any]) -> Role:
    """The role that `dataclasses.asdict` took apart, JSON between them or not."""
    fields = dict(fields)
    fields["retry_policy"] = RetryPolicy(fields["retry_policy"])
    fields["resource"] = Resource(**fields["resource"])
    fields["mounts"] = [_mount(mount) for mount in fields["mounts"]]
    return Role(**fields)


def _mount(fields: dict[str, Any]) -> BindMount | VolumeMount | DeviceMount:
    if "src" in fields:
        return VolumeMount(**fields)
    return DeviceMount(**fields) if "permissions" in fields else BindMount(**fields)
