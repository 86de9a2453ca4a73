"""T5 and Flan-T5 by name, with pretrained weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from flambeau.core.weights import WeightsEnum, build_with_weights
from flambeau.text.models._api import register_model
from flambeau.text.models.t5 import bundler
from flambeau.text.models.t5.model import T5Conf, T5Model
from flambeau.text.weights.t5 import (
    Flan_T5_Base_Weights,
    Flan_T5_Large_Weights,
    Flan_T5_XL_Weights,
    Flan_T5_XXL_Weights,
    T5_3B_Weights,
    T5_11B_Weights,
    T5_Base_Weights,
    T5_Large_Weights,
    T5_Small_Weights,
)

__all__ = [
    "flan_t5_base",
    "flan_t5_large",
    "flan_t5_xl",
    "flan_t5_xxl",
    "t5_3b",
    "t5_11b",
    "t5_base",
    "t5_large",
    "t5_small",
]

Kind = Literal["encoder", "model", "generation"]
_TASK = "text-generation"


def _t5(
    conf: T5Conf,
    weights: WeightsEnum | None,
    progress: bool,
    kind: Kind | None,
    freeze_model: bool,
    *,
    device: Any = None,
    dtype: Any = None,
    **sizes: Any,
) -> T5Model:
    published = weights.meta["kind"] if weights is not None else None
    if kind is not None and published not in (None, kind):
        raise ValueError(f"kind is {kind!r}, but {weights!r} is of kind {published!r}; leave kind out.")
    kind = published or kind or "generation"
    conf = replace(conf, encoder_only=kind == "encoder", linear_head=kind == "generation", **sizes)
    return build_with_weights(T5Model, weights, conf, freeze_model, progress=progress, device=device, dtype=dtype)


@register_model(task=_TASK)
def t5_small(
    *,
    weights: T5_Small_Weights | None = None,
    progress: bool = True,
    kind: Kind | None = None,
    freeze_model: bool = False,
    **kwargs: Any,
) -> T5Model:
    """T5 small: 6 and 6 layers, 512 wide (Raffel et al. 2019, arXiv:1910.10683).

    Args:
        weights: pretrained weights, their name, or None for random initialization; they decide the kind.
        progress: show the download's progress.
        kind: "encoder", "model" (encoder and decoder) or "generation" (and a head, the default).
        freeze_model: no parameter gets a gradient.
        **kwargs: other sizes, as `T5Conf`; `device` and `dtype` place the weights without a copy in between.

    Raises:
        ValueError: the weights are of another kind.
    """
    return _t5(bundler.T5_SMALL.config, T5_Small_Weights.verify(weights), progress, kind, freeze_model, **kwargs)


@register_model(task=_TASK)
def t5_base(
    *,
    weights: T5_Base_Weights | None = None,
    progress: bool = True,
    kind: Kind | None = None,
    freeze_model: bool = False,
    **kwargs: Any,
) -> T5Model:
    """T5 base: 12 and 12 layers, 768 wide (Raffel et al. 2019, arXiv:1910.10683).

    Arguments as `t5_small`.
    """
    return _t5(bundler.T5_BASE.config, T5_Base_Weights.verify(weights), progress, kind, freeze_model, **kwargs)


@register_model(task=_TASK)
def t5_large(
    *,
    weights: T5_Large_Weights | None = None,
    progress: bool = True,
    kind: Kind | None = None,
    freeze_model: bool = False,
    **kwargs: Any,
) -> T5Model:
    """T5 large: 24 and 24 layers, 1024 wide (Raffel et al. 2019, arXiv:1910.10683).

    Arguments as `t5_small`.
    """
    return _t5(bundler.T5_LARGE.config, T5_Large_Weights.verify(weights), progress, kind, freeze_model, **kwargs)


@register_model(task=_TASK)
def t5_3b(
    *,
    weights: T5_3B_Weights | None = None,
    progress: bool = True,
    kind: Kind | None = None,
    freeze_model: bool = False,
    **kwargs: Any,
) -> T5Model:
    """T5 of 3 billion parameters (Raffel et al. 2019, arXiv:1910.10683).

    Arguments as `t5_small`.
    """
    return _t5(bundler.T5_3B.config, T5_3B_Weights.verify(weights), progress, kind, freeze_model, **kwargs)


@register_model(task=_TASK)
def t5_11b(
    *,
    weights: T5_11B_Weights | None = None,
    progress: bool = True,
    kind: Kind | None = None,
    freeze_model: bool = False,
    **kwargs: Any,
) -> T5Model:
    """T5 of 11 billion parameters (Raffel et al. 2019, arXiv:1910.10683).

    Arguments as `t5_small`.
    """
    return _t5(bundler.T5_11B.config, T5_11B_Weights.verify(weights), progress, kind, freeze_model, **kwargs)


@register_model(task=_TASK)
def flan_t5_base(
    *,
    weights: Flan_T5_Base_Weights | None = None,
    progress: bool = True,
    kind: Kind | None = None,
    freeze_model: bool = False,
    **kwargs: Any,
) -> T5Model:
    """Flan-T5 base (Chung et al. 2022, arXiv:2210.11416).

    Arguments as `t5_small`.
    """
    return _t5(
        bundler.FLAN_T5_BASE.config, Flan_T5_Base_Weights.verify(weights), progress, kind, freeze_model, **kwargs
    )


@register_model(task=_TASK)
def flan_t5_large(
    *,
    weights: Flan_T5_Large_Weights | None = None,
    progress: bool = True,
    kind: Kind | None = None,
    freeze_model: bool = False,
    **kwargs: Any,
) -> T5Model:
    """Flan-T5 large (Chung et al. 2022, arXiv:2210.11416).

    Arguments as `t5_small`.
    """
    return _t5(
        bundler.FLAN_T5_LARGE.config, Flan_T5_Large_Weights.verify(weights), progress, kind, freeze_model, **kwargs
    )


@register_model(task=_TASK)
def flan_t5_xl(
    *,
    weights: Flan_T5_XL_Weights | None = None,
    progress: bool = True,
    kind: Kind | None = None,
    freeze_model: bool = False,
    **kwargs: Any,
) -> T5Model:
    """Flan-T5 XL, 3 billion parameters (Chung et al. 2022, arXiv:2210.11416).

    Arguments as `t5_small`.
    """
    return _t5(bundler.FLAN_T5_XL.config, Flan_T5_XL_Weights.verify(weights), progress, kind, freeze_model, **kwargs)


@register_model(task=_TASK)
def flan_t5_xxl(
    *,
    weights: Flan_T5_XXL_Weights | None = None,
    progress: bool = True,
    kind: Kind | None = None,
    freeze_model: bool = False,
    **kwargs: Any,
) -> T5Model:
    """Flan-T5 XXL, 11 billion parameters (Chung et al. 2022, arXiv:2210.11416).

    Arguments as `t5_small`.
    """
    return _t5(bundler.FLAN_T5_XXL.config, Flan_T5_XXL_Weights.verify(weights), progress, kind, freeze_model, **kwargs)
