"""Weights of the plugin's models: facts alone, so that nothing here imports torch."""

from __future__ import annotations

from flambeau.core.weights import Weights, WeightsEnum, lazy

__all__ = ["SpiralNet_Weights"]


class SpiralNet_Weights(WeightsEnum):
    """Weights of `spiral_net`. The file is part of the package; larger ones have an https URL instead."""

    SPIRALS_V1 = Weights(
        url="package:flambeau_plugin_example/files/spiral_net-v1-a7c8b9b3.safetensors",
        transforms=lazy("flambeau_plugin_example.transforms:PointPreset", scale=1.0),
        meta={
            "task": "point-classification",
            "num_params": 1218,
            "categories": ["first spiral", "second spiral"],
            "recipe": "recipes/spiral_net.py",
            "license": "BSD-3-Clause",
            "_metrics": {"spirals, test split": {"acc@1": 97.5}},
            "_file_size": 0.005,
            "_docs": "Trained on the 2,000 points of the training split, measured on 1,000 others.",
        },
        sha256="a7c8b9b36991a7ed40530bfd116ef94406bfa4155d3034f5483e676fe31ea4d2",
        size=5320,
    )
    DEFAULT = SPIRALS_V1
