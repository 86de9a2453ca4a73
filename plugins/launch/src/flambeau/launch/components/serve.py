"""Models given to servers."""

from __future__ import annotations

from flambeau.launch import specs
from flambeau.launch.version import IMAGE

__all__ = ["torchserve"]


def torchserve(
    model_path: str,
    management_api: str,
    image: str = IMAGE,
    params: dict[str, object] | None = None,
    dryrun: bool = False,
) -> specs.AppDef:
    """Gives a model archive to a running TorchServe, or to `flambeau serve`, which has the same management API.

    Args:
        model_path: of the archive, which fsspec reads
        management_api: address, such as http://host:8081
        image: what it runs in
        params: of the registration, such as initial_workers=1
        dryrun: whether only to print what would be asked for
    """
    arguments = [
        *("-m", "flambeau.launch.apps.serve.serve", "--model_path", model_path, "--management_api", management_api),
        *(word for name, value in (params or {}).items() for word in (f"--{name}", str(value))),
        *(["--dryrun"] if dryrun else []),
    ]
    role = specs.Role(
        *("worker", image),
        entrypoint="python",
        args=arguments,
        port_map={"model-download": 8222},
        resource=specs.Resource(cpu=1, gpu=0, memMB=1024),
    )
    return specs.AppDef("torchx-torchserve", [role])
