"""`ProbabilisticTensorDictSequential`: a sequence with distributions in it, which can be asked for."""

from __future__ import annotations

from typing import Any

from torch import distributions as D

from flambeau.data.tensordict.nn._dispatch import dispatch
from flambeau.data.tensordict.nn._interaction import InteractionType
from flambeau.data.tensordict.nn.distributions.composite import CompositeDistribution
from flambeau.data.tensordict.nn.sequence import TensorDictSequential
from flambeau.data.tensordict.nn.utils import set_skip_existing


class ProbabilisticTensorDictSequential(TensorDictSequential):
    """A sequence whose probabilistic modules' distributions can be asked for.

    Args:
        modules: at least one of them a `ProbabilisticTensorDictModule`, or a sequence such as this.
        partial_tolerant: see `TensorDictSequential`.
        return_composite: give all distributions as one `CompositeDistribution`; by default where there are several, or
            where the last module is not probabilistic.
        selected_out_keys: see `TensorDictSequential`.
        inplace: see there.

    Raises:
        ValueError: there is no module; or none is probabilistic, from the methods that need one.
        TypeError: `return_composite` is False, and the last module is not probabilistic.

    Example:
        >>> from flambeau.data.tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule
        >>> policy = ProbabilisticTensorDictSequential(
        ...     TensorDictModule(lambda x: (x, x.abs() + 1), in_keys=["obs"], out_keys=["loc", "scale"]),
        ...     ProbabilisticTensorDictModule(
        ...         in_keys=["loc", "scale"], out_keys=["action"], distribution_class=torch.distributions.Normal
        ...     ),
        ... )
        >>> policy.get_dist(TensorDict(obs=torch.zeros(3))).mean
        tensor([0., 0., 0.])
    """

    _has_distribution = True

    def __init__(
        self,
        *modules: Any,
        partial_tolerant: bool = False,
        return_composite: bool | None = None,
        selected_out_keys: list[Any] | None = None,
        inplace: bool | str | None = None,
    ) -> None:
        if not modules:
            raise ValueError("a ProbabilisticTensorDictSequential needs at least one module.")
        super().__init__(
            *modules, partial_tolerant=partial_tolerant, selected_out_keys=selected_out_keys, inplace=inplace
        )
        members = self._members()
        if return_composite is False and not (members and _is_probabilistic(members[-1])):
            raise TypeError(
                "with return_composite=False the last module gives the distribution, and it must be a "
                "ProbabilisticTensorDictModule or a ProbabilisticTensorDictSequential."
            )
        if return_composite is None:
            count = sum(map(_is_probabilistic, members))
            return_composite = count > 1 or (count == 1 and not _is_probabilistic(members[-1]))
        self.return_composite = return_composite

    # --- its modules

    def _probabilistic(self) -> list[Any]:
        """The modules that have distributions, those of sequences inside too; in order."""
        found: list[Any] = []
        for module in self._members():
            if isinstance(module, ProbabilisticTensorDictSequential):
                found += module._probabilistic()
            elif _is_probabilistic(module):
                found.append(module)
        if not found:
            raise ValueError("none of the modules is probabilistic; add a ProbabilisticTensorDictModule.")
        return found

    def _last(self) -> Any:
        return self._probabilistic()[-1]

    def __getitem__(self, index: int | slice | str) -> Any:
        """A module by position or name, or a sequence of a slice; a probabilistic one if its last module is."""
        if not isinstance(index, slice):
            return super().__getitem__(index)
        modules = self._members()[index]
        kind = type(self) if modules and _is_probabilistic(modules[-1]) else TensorDictSequential
        return kind(*modules, partial_tolerant=self.partial_tolerant, inplace=self.inplace)

    @property
    def det_part(self) -> TensorDictSequential:
        """All modules before the last."""
        return TensorDictSequential(*self._members()[:-1], partial_tolerant=self.partial_tolerant)

    @property
    def default_interaction_type(self) -> InteractionType:
        """Of the last probabilistic module."""
        return self._last().default_interaction_type

    @property
    def num_samples(self) -> tuple[int, ...]:
        """The dimensions that drawing adds to the tensordict."""
        return tuple(size for module in self._probabilistic()[::-1] for size in module.num_samples or ())

    @property
    def dist_params_keys(self) -> list[Any]:
        """The keys of all parameters, the last distribution's first."""
        return [key for module in self._probabilistic()[::-1] for key in module.dist_params_keys]

    @property
    def dist_sample_keys(self) -> list[Any]:
        """The keys of all values, the last distribution's first."""
        return [key for module in self._probabilistic()[::-1] for key in module.dist_sample_keys]

    @property
    def log_prob_keys(self) -> list[Any]:
        """The keys of all log-probabilities, the last distribution's first."""
        return [key for module in self._probabilistic()[::-1] for key in module.log_prob_keys]

    @property
    def log_prob_key(self) -> Any:
        """The key of the last distribution's log-probability."""
        return self._last().log_prob_key

    # --- its distributions

    def get_dist_params(self, tensordict: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """The tensordict with the parameters of the distribution.

        Modules before the last probabilistic one run, and write into the input where there is one distribution alone.
        Of several, values that the input holds already stand for what earlier ones would give.
        """
        return self._distribution(tensordict, tensordict_out, kwargs)[1]

    def get_dist(self, tensordict: Any, tensordict_out: Any = None, **kwargs: Any) -> D.Distribution:
        """The last distribution, or all as a `CompositeDistribution` (see `return_composite`)."""
        return self._distribution(tensordict, tensordict_out, kwargs)[0]

    def build_dist_from_params(self, tensordict: Any) -> D.Distribution:
        """The distribution of parameters that are there already; no module runs but the probabilistic ones."""
        found = {}
        for module in self._probabilistic():
            found[module.dist_sample_keys[0]] = module.build_dist_from_params(tensordict)
        return self._one_of(found, tensordict)

    def _distribution(self, tensordict: Any, tensordict_out: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        last = self._last()
        # Upstream: the parameters of a lone distribution are written into the input, as running the modules would.
        alone = tensordict_out is None and sum(map(_is_probabilistic, self._flat())) == 1
        td = tensordict if alone else tensordict.copy()
        given = set(tensordict.keys(True, True))
        found: dict[Any, Any] = {}
        for module in self._flat():
            if not _is_probabilistic(module):
                td = self._run(module, td, kwargs)
                continue
            dist = module.get_dist(td)
            parts = dist.dists if isinstance(dist, CompositeDistribution) else {module.dist_sample_keys[0]: dist}
            found.update(parts)
            if module is last:
                break
            there = all(key in given for key in module.dist_sample_keys)
            td = module(td, _requires_sample=not there)
        if tensordict_out is not None:
            td = tensordict_out.update(td)
        if not self.return_composite:
            return dist, td
        return self._one_of(found, td), td

    def _run(self, module: Any, tensordict: Any, kwargs: dict[str, Any]) -> Any:
        plain = _is_probabilistic(module) and not isinstance(module, ProbabilisticTensorDictSequential)
        return super()._run(module, tensordict, {} if plain else kwargs)

    def _flat(self) -> list[Any]:
        flat: list[Any] = []
        for module in self._members():
            flat += module._flat() if isinstance(module, ProbabilisticTensorDictSequential) else [module]
        return flat

    def _one_of(self, found: dict[Any, Any], tensordict: Any) -> Any:
        if not self.return_composite:
            return list(found.values())[-1]
        return CompositeDistribution.from_distributions(tensordict, found)

    def log_prob(
        self, tensordict: Any, tensordict_out: Any = None, *, dist: D.Distribution | None = None, **kwargs: Any
    ) -> Any:
        """The log-probability of the values that the tensordict holds.

        Returns:
            A tensor; of several distributions a TensorDict with one entry each, or, with
            `set_composite_lp_aggregate(True)`, the sum.
        """
        dist = self.get_dist(tensordict, tensordict_out, **kwargs) if dist is None else dist
        if isinstance(dist, CompositeDistribution):
            return dist.log_prob(tensordict)
        return self._last().log_prob(tensordict, dist=dist)

    @dispatch(auto_batch_size=False)
    @set_skip_existing(None)
    def forward(self, tensordict: Any = None, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """Run all modules, as `TensorDictSequential`; keywords reach those that are not probabilistic."""
        return super().forward(tensordict, tensordict_out=tensordict_out, **kwargs)


def _is_probabilistic(module: Any) -> bool:
    return getattr(type(module), "_has_distribution", False)
