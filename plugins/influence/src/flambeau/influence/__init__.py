"""Which training examples caused a prediction.

TracIn, influence functions and similarity of activations, for any PyTorch model and dataset; `flambeau influence` does
the same for those that plugins register.

Importing this package does not import torch; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.influence._core.arnoldi_influence_function import (
        ArnoldiInfluenceFunction as ArnoldiInfluenceFunction,
    )
    from flambeau.influence._core.ekfac_influence_function import EKFACInfluenceFunction as EKFACInfluenceFunction
    from flambeau.influence._core.influence import DataInfluence as DataInfluence
    from flambeau.influence._core.influence_function import NaiveInfluenceFunction as NaiveInfluenceFunction
    from flambeau.influence._core.similarity_influence import SimilarityInfluence as SimilarityInfluence
    from flambeau.influence._core.tracincp import TracInCP as TracInCP
    from flambeau.influence._core.tracincp import TracInCPBase as TracInCPBase
    from flambeau.influence._core.tracincp_fast_rand_proj import TracInCPFast as TracInCPFast
    from flambeau.influence._core.tracincp_fast_rand_proj import TracInCPFastRandProj as TracInCPFastRandProj
    from flambeau.influence._core.trak import TRAK as TRAK
    from flambeau.influence._utils.common import KMostInfluentialResults as KMostInfluentialResults
    from flambeau.influence.influence_store import InfluenceStore as InfluenceStore
    from flambeau.influence.measures import leave_one_out as leave_one_out
    from flambeau.influence.measures import linear_datamodeling_score as linear_datamodeling_score
    from flambeau.influence.measures import mislabel_auc as mislabel_auc

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_core.arnoldi_influence_function": ("ArnoldiInfluenceFunction",),
        "_core.ekfac_influence_function": ("EKFACInfluenceFunction",),
        "_core.influence": ("DataInfluence",),
        "_core.influence_function": ("NaiveInfluenceFunction",),
        "_core.similarity_influence": ("SimilarityInfluence",),
        "_core.tracincp": ("TracInCP", "TracInCPBase"),
        "_core.tracincp_fast_rand_proj": ("TracInCPFast", "TracInCPFastRandProj"),
        "_core.trak": ("TRAK",),
        "_utils.common": ("KMostInfluentialResults",),
        "influence_store": ("InfluenceStore",),
        "measures": ("leave_one_out", "linear_datamodeling_score", "mislabel_auc"),
    },
    submodules=("_core", "_utils", "influence_store", "measures"),
)
