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
    from flambeau.rl._utils import auto_unwrap_transformed_env as auto_unwrap_transformed_env
    from flambeau.rl._utils import compile_with_warmup as compile_with_warmup
    from flambeau.rl._utils import implement_for as implement_for
    from flambeau.rl._utils import logger as logger
    from flambeau.rl._utils import set_auto_unwrap_transformed_env as set_auto_unwrap_transformed_env
    from flambeau.rl._utils import timeit as timeit
    from flambeau.rl._utils import torchrl_logger as torchrl_logger

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_utils": (
            "auto_unwrap_transformed_env",
            "compile_with_warmup",
            "implement_for",
            "logger",
            "set_auto_unwrap_transformed_env",
            "timeit",
            "torchrl_logger",
        )
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
