"""Distributions of discrete actions."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch import distributions as D
from torch.nn import functional as F

from flambeau.data.tensordict.nn.distributions.discrete import rand_one_hot as rand_one_hot
from flambeau.rl.modules.distributions._masked import MaskedCategorical as MaskedCategorical
from flambeau.rl.modules.distributions._masked import MaskedOneHotCategorical as MaskedOneHotCategorical
from flambeau.rl.modules.distributions._one_hot import OneHotCategorical as OneHotCategorical
from flambeau.rl.modules.distributions._one_hot import ReparamGradientStrategy as ReparamGradientStrategy
from flambeau.rl.modules.distributions._token_masked import LLMMaskedCategorical as LLMMaskedCategorical

__all__ = ["LLMMaskedCategorical", "MaskedCategorical", "OneHotCategorical", "OneHotOrdinal", "Ordinal"]


class Ordinal(D.Categorical):
    """A categorical distribution over K classes in an order: a class gains where those below are likely.

    Args:
        scores: (..., K), what a network says of each class.

    References:
        Tang and Agrawal 2020, arXiv:1901.10500, section 5.
    """

    def __init__(self, scores: Tensor) -> None:
        super().__init__(logits=_ordinal_logits(scores), validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same for a larger batch."""
        new = Ordinal.__new__(Ordinal)
        logits = self.logits.expand(*batch_shape, self.logits.shape[-1])
        D.Categorical.__init__(new, logits=logits, validate_args=False)
        return new


class OneHotOrdinal(OneHotCategorical):
    """An `Ordinal` whose samples are one-hot vectors.

    Args:
        scores: (..., K), what a network says of each class.
    """

    def __init__(self, scores: Tensor) -> None:
        super().__init__(logits=_ordinal_logits(scores))


def _ordinal_logits(scores: Tensor) -> Tensor:
    """Equation 4: class k has the logits of "at least i" for i up to k, and of "less than i" for those above."""
    reached, missed = F.logsigmoid(scores), F.logsigmoid(-scores)
    return reached.cumsum(-1) + missed.flip(-1).cumsum(-1).flip(-1) - missed


_generate_ordinal_logits = _ordinal_logits
