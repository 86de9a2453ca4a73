"""How much at random a policy acts, and what it earns by that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from flambeau.data.tensordict import unravel_key
from flambeau.rl.objectives._reductions import _sum_td_features

__all__ = ["coefficients_of", "entropy_of", "total", "weighted"]

_SUFFIX = "_entropy"


def entropy_of(dist: Any, samples: int) -> Any:
    """The entropy of each element, (*batch, 1); of several heads a tensordict of them.

    Args:
        dist: a distribution.
        samples: how many values estimate the entropy where there is no formula for it.
    """
    try:
        found = dist.entropy()
    except NotImplementedError:
        found = _estimated(dist, samples)
    return found.unsqueeze(-1) if isinstance(found, Tensor) else found.apply(lambda one: one.unsqueeze(-1))


def _estimated(dist: Any, samples: int) -> Tensor:
    draw = dist.rsample if getattr(dist, "has_rsample", False) else dist.sample
    log_prob = dist.log_prob(draw((samples,)))
    if not isinstance(log_prob, Tensor):
        log_prob = _sum_td_features(log_prob)
    return -log_prob.mean(0)


def total(entropy: Any) -> Tensor:
    """The entropy of all heads together, `batch` (of one head with a last dimension of 1)."""
    return entropy if isinstance(entropy, Tensor) else _sum_td_features(entropy)


def coefficients_of(given: Mapping[Any, Any]) -> dict[Any, float]:
    """Coefficients by names of heads; a name is a key, or the key of the entropy, which ends in "_entropy"."""
    return {unravel_key(name): float(coefficient) for name, coefficient in given.items()}


def weighted(entropy: Any, coefficients: Mapping[Any, float], action: Any) -> Tensor:
    """The entropies of heads by their coefficients, added up: `batch`.

    Args:
        entropy: of `entropy_of`.
        coefficients: of `coefficients_of`.
        action: the key of the action, which is the name of the head where there is but one.

    Raises:
        KeyError: a head without a coefficient.
    """
    if isinstance(entropy, Tensor):
        return entropy * _coefficient(coefficients, action)
    heads = entropy.items(True, True)
    terms = [leaf.flatten(entropy.ndim).sum(-1) * _coefficient(coefficients, key) for key, leaf in heads]
    summed: Tensor = sum(terms[1:], terms[0])
    return summed


def _coefficient(coefficients: Mapping[Any, float], key: Any) -> float:
    last = key if isinstance(key, str) else key[-1]
    head = last.removesuffix(_SUFFIX)
    for name in (last, head):
        at = name if isinstance(key, str) else (*key[:-1], name)
        if at in coefficients:
            return coefficients[at]
    if isinstance(key, str) and f"{key}{_SUFFIX}" in coefficients:
        return coefficients[f"{key}{_SUFFIX}"]
    raise KeyError(f"entropy_coeff has no coefficient for the head {head!r}; it has some for {list(coefficients)}.")
