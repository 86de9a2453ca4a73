"""Reinforcement learning for PyTorch: environments, replay buffers, modules, objectives.

Importing this package does not import torch; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports
from flambeau.core.late_operators import announce_operators
from flambeau.rl.ops._announced import OPERATORS

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl._comm.backends import service_backend as service_backend
    from flambeau.rl._comm.backends import transport_backend as transport_backend
    from flambeau.rl._utils import auto_unwrap_transformed_env as auto_unwrap_transformed_env
    from flambeau.rl._utils import compile_with_warmup as compile_with_warmup
    from flambeau.rl._utils import cuda_memory_profile as cuda_memory_profile
    from flambeau.rl._utils import cuda_memory_stats as cuda_memory_stats
    from flambeau.rl._utils import get_ray_default_runtime_env as get_ray_default_runtime_env
    from flambeau.rl._utils import implement_for as implement_for
    from flambeau.rl._utils import logger as logger
    from flambeau.rl._utils import merge_ray_runtime_env as merge_ray_runtime_env
    from flambeau.rl._utils import reset_cuda_peak_stats as reset_cuda_peak_stats
    from flambeau.rl._utils import set_auto_unwrap_transformed_env as set_auto_unwrap_transformed_env
    from flambeau.rl._utils import timeit as timeit
    from flambeau.rl._utils import torchrl_logger as torchrl_logger

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_comm.backends": ("service_backend", "transport_backend"),
        "_utils": (
            "auto_unwrap_transformed_env",
            "compile_with_warmup",
            "cuda_memory_profile",
            "cuda_memory_stats",
            "get_ray_default_runtime_env",
            "implement_for",
            "logger",
            "merge_ray_runtime_env",
            "reset_cuda_peak_stats",
            "set_auto_unwrap_transformed_env",
            "timeit",
            "torchrl_logger",
        ),
    },
    submodules=(
        "checkpoint",
        "data",
        "envs",
        "models",
        "modules",
        "objectives",
        "ops",
        "record",
        "render",
        "runs",
        "trainers",
    ),
)

# Code that calls operators by their names in torch's registry finds them without another import.
announce_operators("flambeau_rl", OPERATORS)
