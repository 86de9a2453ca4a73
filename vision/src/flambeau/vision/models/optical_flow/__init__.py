"""Models that tell how every pixel moves from one picture to the next."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.models.optical_flow.raft import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "raft": ("RAFT", "raft_large", "raft_small"),
        # Weights come from the catalogue itself, so that reading an enum imports no torch.
        "flambeau.vision.weights.raft": ("Raft_Large_Weights", "Raft_Small_Weights"),
    },
    submodules=("_utils",),
)
