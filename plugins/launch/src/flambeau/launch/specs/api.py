"""Everything that an application is described with."""

from __future__ import annotations

from flambeau.launch.errors import MalformedAppHandleException, UnknownAppException, UnknownSchedulerException
from flambeau.launch.specs.apps import ALL, MISSING, NONE, AppDef, AppDryRunInfo, RetryPolicy, Role
from flambeau.launch.specs.handles import AppHandle, ParsedAppHandle, parse_app_handle
from flambeau.launch.specs.macros import macros
from flambeau.launch.specs.mounts import BindMount, DeviceMount, MountType, VolumeMount
from flambeau.launch.specs.options import CfgVal, InvalidRunConfigException, get_type_name, runopt, runopts
from flambeau.launch.specs.resources import NULL_RESOURCE, Resource
from flambeau.launch.specs.status import (
    AppState,
    AppStatus,
    AppStatusError,
    ReplicaState,
    ReplicaStatus,
    RoleStatus,
    is_started,
    is_terminal,
)

__all__ = [
    "ALL",
    "MISSING",
    "NONE",
    "NULL_RESOURCE",
    "AppDef",
    "AppDryRunInfo",
    "AppHandle",
    "AppState",
    "AppStatus",
    "AppStatusError",
    "BindMount",
    "CfgVal",
    "DeviceMount",
    "InvalidRunConfigException",
    "MalformedAppHandleException",
    "MountType",
    "ParsedAppHandle",
    "ReplicaState",
    "ReplicaStatus",
    "Resource",
    "RetryPolicy",
    "Role",
    "RoleStatus",
    "UnknownAppException",
    "UnknownSchedulerException",
    "VolumeMount",
    "get_type_name",
    "is_started",
    "is_terminal",
    "macros",
    "parse_app_handle",
    "runopt",
    "runopts",
]
