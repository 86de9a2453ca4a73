"""Watching what programs measure."""

from __future__ import annotations

from flambeau.launch import specs
from flambeau.launch.version import IMAGE

__all__ = ["tensorboard"]


def tensorboard(
    logdir: str,
    image: str = IMAGE,
    timeout: float = 60 * 60,
    port: int = 6006,
    start_on_file: str = "",
    exit_on_file: str = "",
) -> specs.AppDef:
    """Shows a folder of events by TensorBoard, for a while.

    Args:
        logdir: the folder, or an address that TensorBoard reads
        image: what it runs in
        timeout: seconds after which it ends
        port: where it answers
        start_on_file: file, which fsspec finds, that it waits for before it starts
        exit_on_file: file that ends it
    """
    arguments = [
        *("-m", "flambeau.launch.apps.utils.process_monitor", "--timeout", str(timeout)),
        *("--start_on_file", start_on_file, "--exit_on_file", exit_on_file, "--"),
        *("tensorboard", "--bind_all", "--port", str(port), "--logdir", logdir),
    ]
    role = specs.Role("tensorboard", image, entrypoint="python", args=arguments, port_map={"http": port})
    return specs.AppDef("tensorboard", [role])
