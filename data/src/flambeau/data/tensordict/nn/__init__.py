"""Modules that read and write tensordicts, and tensordicts of parameters."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "common": (
            "TensorDictModule",
            "TensorDictModuleBase",
            "TensorDictModuleWrapper",
            "WrapModule",
            "as_tensordict_module",
            "dispatch",
        ),
        "cudagraphs": ("CudaGraphModule",),
        "distributions": (
            "AddStateIndependentNormalScale",
            "CompositeDistribution",
            "Delta",
            "NormalParamExtractor",
            "OneHotCategorical",
            "TruncatedNormal",
            "distributions_maps",
            "rand_one_hot",
        ),
        "ensemble": ("EnsembleModule",),
        "functional_modules": ("get_functional", "is_functional", "make_functional", "repopulate_module"),
        "params": ("TensorDictParams",),
        "probabilistic": (
            "InteractionType",
            "ProbabilisticTensorDictModule",
            "ProbabilisticTensorDictSequential",
            "interaction_type",
            "set_interaction_type",
        ),
        "sequence": ("TensorDictSequential",),
        "tensorclass_module": ("TensorClassModuleBase", "TensorClassModuleWrapper"),
        "utils": (
            "add_custom_mapping",
            "biased_softplus",
            "composite_lp_aggregate",
            "inv_softplus",
            "mappings",
            "set_composite_lp_aggregate",
            "set_skip_existing",
            "skip_existing",
        ),
        "flambeau.data.tensordict.functional": ("make_tensordict",),
    },
)
