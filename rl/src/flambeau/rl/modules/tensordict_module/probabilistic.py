"""Probabilistic modules with specs of their samples."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.data.tensordict.nn.common import dispatch
from flambeau.data.tensordict.nn.distributions.composite import CompositeDistribution
from flambeau.data.tensordict.nn.probabilistic import (
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    interaction_type,
)
from flambeau.data.tensordict.nn.utils import set_skip_existing
from flambeau.rl.modules.distributions.continuous import Delta
from flambeau.rl.modules.distributions.utils import sample_and_log_prob
from flambeau.rl.modules.tensordict_module.common import Specified, project_outputs
from flambeau.rl.modules.tensordict_module.sequence import SafeSequential, joint_spec

__all__ = ["SafeProbabilisticModule", "SafeProbabilisticTensorDictSequential"]


class SafeProbabilisticModule(Specified, ProbabilisticTensorDictModule):
    """A `ProbabilisticTensorDictModule` that knows the domain of its samples.

    Random samples and their log-probabilities are drawn together where the distribution can do that, so that rounding
    near a bound does not change a score.

    Args:
        in_keys, out_keys: see `ProbabilisticTensorDictModule`.
        spec: the domain of the sample, or a `Composite` of several.
        safe: project samples into it.
        default_interaction_type, distribution_class, distribution_kwargs, return_log_prob, log_prob_keys, log_prob_key,
            cache_dist, n_empirical_estimate, num_samples, generator: see `ProbabilisticTensorDictModule`.

    Raises:
        RuntimeError: `safe` without a spec, or a spec with other keys than the outputs'.
    """

    def __init__(
        self,
        in_keys: Any,
        out_keys: Any = None,
        spec: Any = None,
        *,
        safe: bool = False,
        default_interaction_type: InteractionType | str = InteractionType.DETERMINISTIC,
        distribution_class: Any = Delta,
        distribution_kwargs: dict[str, Any] | None = None,
        return_log_prob: bool = False,
        log_prob_keys: Any = None,
        log_prob_key: Any = None,
        cache_dist: bool = False,
        n_empirical_estimate: int = 1000,
        num_samples: Any = None,
        generator: Any = None,
    ) -> None:
        super().__init__(
            in_keys, out_keys, default_interaction_type=default_interaction_type, distribution_class=distribution_class,
            distribution_kwargs=distribution_kwargs, return_log_prob=return_log_prob, log_prob_keys=log_prob_keys,
            log_prob_key=log_prob_key, cache_dist=cache_dist, n_empirical_estimate=n_empirical_estimate,
            num_samples=num_samples, generator=generator,
        )  # fmt: skip
        self.register_spec(safe, spec)

    @dispatch(auto_batch_size=False)
    @set_skip_existing(None)
    def forward(self, tensordict: Any, tensordict_out: Any = None, _requires_sample: bool = True) -> Any:
        """Write a value, and its log-probability if asked for; see `ProbabilisticTensorDictModule`."""
        kind = interaction_type() or self.default_interaction_type
        if self.return_log_prob and _requires_sample and kind is InteractionType.RANDOM:
            out = self._draw(tensordict, tensordict_out)
        else:
            out = super().forward(tensordict, tensordict_out, _requires_sample)
        if self.safe:
            project_outputs(out, self.spec)
        return out

    def _draw(self, tensordict: Any, tensordict_out: Any) -> Any:
        """Draw and score at once."""
        dist: Any = self.get_dist(tensordict)
        out = tensordict if tensordict_out is None else tensordict_out
        shape = torch.Size(self.num_samples or ())
        if shape:
            out = out.expand(*shape, *out.batch_size).clone(False)
        with self._drawing(tensordict):
            value, log_prob = sample_and_log_prob(dist, shape, reparameterize=bool(dist.has_rsample))
        if not isinstance(dist, CompositeDistribution):
            return out.set(self.dist_sample_keys[0], value).set(self._written_log_prob_keys()[0], log_prob)
        out.update(value)
        keys = self._written_log_prob_keys()
        if isinstance(log_prob, torch.Tensor):
            return out.set(keys[0], log_prob)
        for key, score in zip(keys, log_prob.values(True, True), strict=True):
            out.set(key, score)
        return out


class SafeProbabilisticTensorDictSequential(ProbabilisticTensorDictSequential, SafeSequential):
    """A `ProbabilisticTensorDictSequential` whose spec is that of all its modules.

    Args:
        modules: the last of them probabilistic.
        partial_tolerant: see `TensorDictSequential`.
        kwargs: of `ProbabilisticTensorDictSequential`.
    """

    def __init__(self, *modules: Any, partial_tolerant: bool = False, **kwargs: Any) -> None:
        super().__init__(*modules, partial_tolerant=partial_tolerant, **kwargs)
        self.__dict__["_spec"], self.safe = joint_spec(self._members()), False
