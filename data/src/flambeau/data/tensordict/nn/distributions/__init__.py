"""Distributions that modules of tensordicts use beside those of torch."""

from __future__ import annotations

from flambeau.data.tensordict.nn._interaction import InteractionType as InteractionType
from flambeau.data.tensordict.nn._interaction import set_interaction_type as set_interaction_type
from flambeau.data.tensordict.nn.distributions.composite import CompositeDistribution as CompositeDistribution
from flambeau.data.tensordict.nn.distributions.continuous import (
    AddStateIndependentNormalScale as AddStateIndependentNormalScale,
)
from flambeau.data.tensordict.nn.distributions.continuous import Delta as Delta
from flambeau.data.tensordict.nn.distributions.continuous import NormalParamExtractor as NormalParamExtractor
from flambeau.data.tensordict.nn.distributions.discrete import OneHotCategorical as OneHotCategorical
from flambeau.data.tensordict.nn.distributions.discrete import rand_one_hot as rand_one_hot
from flambeau.data.tensordict.nn.distributions.truncated_normal import TruncatedNormal as TruncatedNormal
from flambeau.data.tensordict.nn.utils import add_custom_mapping as add_custom_mapping
from flambeau.data.tensordict.nn.utils import mappings as mappings

# By lower-case name, for configurations.
distributions_maps = {
    kind.__name__.lower(): kind
    for kind in (AddStateIndependentNormalScale, Delta, NormalParamExtractor, OneHotCategorical)
}
