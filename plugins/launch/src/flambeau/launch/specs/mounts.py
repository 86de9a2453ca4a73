"""Folders, volumes and devices that a replica sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from flambeau.launch.errors import MountError, SpecError

__all__ = ["BindMount", "DeviceMount", "MountType", "VolumeMount", "parse_mounts"]


class MountType(str, Enum):  # noqa: UP042  (upstream: `str()` of a member is not its value)
    """Kinds of mounts, as `parse_mounts` takes them."""

    BIND = "bind"
    VOLUME = "volume"
    DEVICE = "device"


@dataclass
class BindMount:
    """A folder of the host in the replica's file system.

    Attributes:
        src_path: on the host.
        dst_path: in the replica.
        read_only: whether the replica must not write to it.
    """

    src_path: str
    dst_path: str
    read_only: bool = False


@dataclass
class VolumeMount:
    """A persistent volume of the scheduler in the replica's file system.

    Attributes:
        src: name of the volume, or of the claim to it.
        dst_path: in the replica.
        read_only: whether the replica must not write to it.
    """

    src: str
    dst_path: str
    read_only: bool = False


@dataclass
class DeviceMount:
    """A device of the host.

    Attributes:
        src_path: on the host, such as `/dev/infiniband/uverbs0`.
        dst_path: in the replica.
        permissions: of `r` (read), `w` (write) and `m` (mknod).
    """

    src_path: str
    dst_path: str
    permissions: str = "rwm"


_OPTIONS: Mapping[str, str] = {
    "type": "type",
    "destination": "dst",
    "dst": "dst",
    "target": "dst",
    "read_only": "readonly",
    "readonly": "readonly",
    "source": "src",
    "src": "src",
    "perm": "perm",
}


def parse_mounts(opts: list[str]) -> list[BindMount | VolumeMount | DeviceMount]:
    """Mounts as command lines have them, each begun by its `type=`.

    Args:
        opts: words such as `type=bind`, `src=/data`, `dst=/mnt`, `readonly`, one after the other for all mounts.

    Raises:
        MountError: (a KeyError) an option is unknown or missing, or stands before the first `type=`.
        SpecError: (a ValueError) the type is none of bind, volume and device, or permissions are none of rwm.

    Example:
        >>> parse_mounts(["type=bind", "src=/data", "dst=/mnt", "readonly"])
        [BindMount(src_path='/data', dst_path='/mnt', read_only=True)]
    """
    groups: list[dict[str, str]] = []
    for word in opts:
        name, separator, value = word.partition("=")
        if name not in _OPTIONS:
            raise MountError(f"mounts have no option {name!r}; expected one of {', '.join(_OPTIONS)}.")
        option = _OPTIONS[name]
        if option == "type":
            groups.append({})
        elif not groups:
            raise MountError(f"{word!r} belongs to no mount; begin each with type=bind, type=volume or type=device.")
        groups[-1][option] = value if separator else "true"
    return [_mount(group) for group in groups]


def _mount(group: dict[str, str]) -> BindMount | VolumeMount | DeviceMount:
    try:
        kind = MountType(group["type"])
    except ValueError:
        known = ", ".join(kind.value for kind in MountType)
        raise SpecError(f"there is no mount of type {group['type']!r}; expected one of {known}.") from None
    source = _required(group, "src")
    if kind is MountType.DEVICE:
        permissions = group.get("perm", "rwm")
        if not permissions or set(permissions) - set("rwm"):
            raise SpecError(f"perm={permissions!r} of the device {source}; expected letters of 'rwm'.")
        return DeviceMount(source, group.get("dst", source), permissions)
    target = _required(group, "dst")
    read_only = group.get("readonly", "false").lower() not in ("false", "0", "no")
    return (BindMount if kind is MountType.BIND else VolumeMount)(source, target, read_only)


def _required(group: dict[str, str], option: str) -> str:
    if not group.get(option):
        raise MountError(f"a mount of type {group['type']!r} needs {option}=PATH.")
    return group[option]
