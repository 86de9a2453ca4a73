"""Models and their weights by name: of every installed plugin, or of one.

The functions of this module see all plugins. `Catalogue("vision")` has the same functions for one plugin, which is what
a domain offers under its own module path, where upstream's functions see that domain alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.weights.index import Index

if TYPE_CHECKING:
    from torch import nn


class Catalogue(Index):
    """Models and weights of one plugin, or of all; see `Index` for the look-ups.

    Attributes:
        plugin: its name; None sees every plugin. With a plugin, names need no prefix and listings have none.
    """

    def get_model(self, name: str, **config: Any) -> nn.Module:
        """Build a model by name.

        Args:
            name: `"resnet50"`, `"vision/resnet50"`, or `"hf:owner/name[@revision]"`.
            config: goes to the builder. Three of its entries mean more than they do there:

                weights: also a path, URL, `"hf:owner/name[@revision]"`, or the registered name of weights; a checkpoint
                    that is no member of the model's enum is loaded strictly.
                num_classes: with weights for another number, the layers the model was registered with as `head` are
                    replaced and start from new values.
                in_channels: the layers registered as `stem` are replaced; with weights, their kernels are summed (one
                    channel) or repeated and scaled (other numbers).

        Raises:
            UnknownNameError, AmbiguousNameError: from the registry.
            ValueError: the model declares no head or stem that could be replaced.
        """
        from flambeau.core.weights.factory import build_adapted  # imports torch

        return build_adapted(self, name, config)


_everything = Catalogue()
register_model = _everything.register_model
list_models = _everything.list_models
get_model = _everything.get_model
get_model_builder = _everything.get_model_builder
get_model_weights = _everything.get_model_weights
get_weight = _everything.get_weight
list_weights = _everything.list_weights
