"""Pretrained weights: enums that name them, a catalogue of models, safe checkpoint reading, instant construction.

Importing this package imports no torch: facts and look-ups need none, and the parts that do load on first use.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.core.errors import CheckpointError as CheckpointError
    from flambeau.core.errors import MissingCheckpointError as MissingCheckpointError
    from flambeau.core.errors import UnsafeCheckpointError as UnsafeCheckpointError
    from flambeau.core.weights.catalogue import Catalogue as Catalogue
    from flambeau.core.weights.catalogue import get_model as get_model
    from flambeau.core.weights.catalogue import get_model_builder as get_model_builder
    from flambeau.core.weights.catalogue import get_model_weights as get_model_weights
    from flambeau.core.weights.catalogue import get_weight as get_weight
    from flambeau.core.weights.catalogue import list_models as list_models
    from flambeau.core.weights.catalogue import list_weights as list_weights
    from flambeau.core.weights.catalogue import register_model as register_model
    from flambeau.core.weights.construction import empty_parameters as empty_parameters
    from flambeau.core.weights.enums import WeightsEnum as WeightsEnum
    from flambeau.core.weights.facts import Weights as Weights
    from flambeau.core.weights.legacy import legacy_weights as legacy_weights
    from flambeau.core.weights.loading import LoadReport as LoadReport
    from flambeau.core.weights.loading import load_into as load_into
    from flambeau.core.weights.loading import load_state_dict as load_state_dict
    from flambeau.core.weights.pretrained import build_with_weights as build_with_weights
    from flambeau.core.weights.transforms import lazy as lazy

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "pretrained": ("build_with_weights",),
        "catalogue": (
            "Catalogue",
            "get_model",
            "get_model_builder",
            "get_model_weights",
            "get_weight",
            "list_models",
            "list_weights",
            "register_model",
        ),
        "construction": ("empty_parameters",),
        "enums": ("WeightsEnum",),
        "facts": ("Weights",),
        "flambeau.core.errors": ("CheckpointError", "MissingCheckpointError", "UnsafeCheckpointError"),
        "legacy": ("legacy_weights",),
        "loading": ("LoadReport", "load_into", "load_state_dict"),
        "transforms": ("lazy",),
    },
    submodules=("checkpoints", "records", "sources", "surgery"),
)
