"""Launch applications: locally, in Docker, on Slurm, Kubernetes, AWS Batch, SageMaker, GCP Batch, Ray and LSF.

Importing this package imports neither torch nor a scheduler; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.launch.version import IMAGE as IMAGE
    from flambeau.launch.version import TORCHX_IMAGE as TORCHX_IMAGE

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {"version": ("IMAGE", "TORCHX_IMAGE")},
    submodules=(
        *("apps", "cli", "components", "distributed", "hpo", "notebook", "pipelines", "runner", "runtime"),
        *("schedulers", "specs", "tracker", "util", "workspace"),
    ),
)
