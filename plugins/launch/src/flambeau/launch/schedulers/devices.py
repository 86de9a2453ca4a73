"""Device files of the devices that resources name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial

from flambeau.launch.specs.mounts import DeviceMount
from flambeau.launch.specs.named_resources_aws import EFA_DEVICE, NEURON_DEVICE

__all__ = ["DEVICES", "efa_to_devicemounts", "get_device_mounts", "neuron_to_devicemounts", "to_devicemounts"]


def to_devicemounts(num_devices: int, device_type: str) -> list[DeviceMount]:
    """Mounts of the first `num_devices` files that begin with `device_type`."""
    paths = [f"{device_type}{number}" for number in range(num_devices)]
    return [DeviceMount(src_path=path, dst_path=path) for path in paths]


neuron_to_devicemounts: Callable[[int], list[DeviceMount]] = partial(to_devicemounts, device_type="/dev/neuron")
efa_to_devicemounts: Callable[[int], list[DeviceMount]] = partial(to_devicemounts, device_type="/dev/infiniband/uverbs")

DEVICES: Mapping[str, Callable[[int], list[DeviceMount]]] = {
    EFA_DEVICE: efa_to_devicemounts,
    NEURON_DEVICE: neuron_to_devicemounts,
}
"""Name of a device -> what makes the mounts of so many of it."""


def get_device_mounts(devices: Mapping[str, int]) -> list[DeviceMount]:
    """The mounts of a resource's devices; of an unknown one it is warned, as its driver may need none."""
    mounts = []
    for name, number in devices.items():
        if name in DEVICES:
            mounts += DEVICES[name](number)
        else:
            warnings.warn(f"no device files are known for the device {name!r}; none is mounted.", stacklevel=2)
    return mounts
