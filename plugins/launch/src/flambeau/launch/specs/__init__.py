"""Descriptions of applications, which every scheduler understands."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.launch.specs.api import *
    from flambeau.launch.specs.builders import materialize_appdef as materialize_appdef
    from flambeau.launch.specs.handles import make_app_handle as make_app_handle
    from flambeau.launch.specs.mounts import parse_mounts as parse_mounts
    from flambeau.launch.specs.named_resources import AWS_NAMED_RESOURCES as AWS_NAMED_RESOURCES
    from flambeau.launch.specs.named_resources import GENERIC_NAMED_RESOURCES as GENERIC_NAMED_RESOURCES
    from flambeau.launch.specs.named_resources import get_named_resources as get_named_resources
    from flambeau.launch.specs.named_resources import load_group as load_group
    from flambeau.launch.specs.named_resources import named_resources as named_resources
    from flambeau.launch.specs.named_resources import resource as resource

GiB: int = 1024

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "flambeau.launch.errors": (
            "MalformedAppHandleException",
            "UnknownAppException",
            "UnknownSchedulerException",
        ),
        "apps": ("ALL", "MISSING", "NONE", "AppDef", "AppDryRunInfo", "RetryPolicy", "Role"),
        "builders": ("materialize_appdef",),
        "handles": ("AppHandle", "ParsedAppHandle", "make_app_handle", "parse_app_handle"),
        "macros": ("macros",),
        "mounts": ("BindMount", "DeviceMount", "MountType", "VolumeMount", "parse_mounts"),
        "named_resources": (
            *("AWS_NAMED_RESOURCES", "GENERIC_NAMED_RESOURCES", "get_named_resources", "load_group"),
            *("named_resources", "resource"),
        ),
        "options": ("CfgVal", "InvalidRunConfigException", "get_type_name", "runopt", "runopts"),
        "resources": ("NULL_RESOURCE", "Resource"),
        "status": (
            *("AppState", "AppStatus", "AppStatusError", "ReplicaState", "ReplicaStatus", "RoleStatus"),
            *("is_started", "is_terminal"),
        ),
    },
    submodules=("api", "file_linter", "finder", "named_resources_aws", "named_resources_generic"),
)
