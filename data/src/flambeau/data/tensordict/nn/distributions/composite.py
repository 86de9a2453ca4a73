"""`CompositeDistribution`: independent distributions of several entries, as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D

from flambeau.data.tensordict._layout.keys import unravel_key
from flambeau.data.tensordict._td import TensorDict
from flambeau.data.tensordict.nn.distributions._reading import deterministic
from flambeau.data.tensordict.nn.utils import composite_lp_aggregate

__all__ = ["CompositeDistribution"]


class CompositeDistribution(D.Distribution, Mapping):  # type: ignore[type-arg]
    """Independent distributions under keys; samples are TensorDicts.

    Args:
        params: holds, under the name of each distribution, a tensordict of its arguments.
        distribution_map: the name of each distribution -> its class.
        name_map: the name of each distribution -> the key of its samples; the same otherwise.
        extra_kwargs: name -> further arguments of the class.
        log_prob_key: where the sum of log-probabilities goes; "sample_log_prob" otherwise.
        entropy_key: where the sum of entropies goes; "entropy" otherwise.

    Raises:
        KeyError: the parameters of a distribution are absent.

    Example:
        >>> params = TensorDict({"x": {"loc": torch.zeros(3), "scale": torch.ones(3)}}, [3])
        >>> distribution = CompositeDistribution(params, distribution_map={"x": torch.distributions.Normal})
        >>> sorted(distribution.log_prob(distribution.sample()).keys())
        ['x_log_prob']
    """

    def __init__(
        self,
        params: Any,
        distribution_map: Mapping[Any, type],
        *,
        name_map: Mapping[Any, Any] | None = None,
        extra_kwargs: Mapping[Any, Mapping[str, Any]] | None = None,
        log_prob_key: Any = None,
        entropy_key: Any = None,
    ) -> None:
        extra = {unravel_key(name): kwargs for name, kwargs in (extra_kwargs or {}).items()}
        made = {}
        for name, kind in distribution_map.items():
            path = unravel_key(name)
            arguments = params.get(path, None)
            if arguments is None:
                raise KeyError(
                    f"CompositeDistribution: no parameters under {path!r}; params has {list(params.keys(True))[:10]}."
                )
            made[path] = kind(**dict(arguments.items()), **extra.get(path, {}))
        self._fill(params.shape, made, name_map, log_prob_key, entropy_key)

    def _fill(
        self, shape: torch.Size, made: dict[Any, D.Distribution], name_map: Any, log_prob_key: Any, entropy_key: Any
    ) -> None:
        names = {unravel_key(name): unravel_key(key) for name, key in (name_map or {}).items()}
        if unknown := [name for name in names if name not in made]:
            raise KeyError(f"CompositeDistribution: name_map has {unknown}; there are {list(made)}.")
        self.dists = {names.get(name, name): distribution for name, distribution in made.items()}
        self._log_prob_key, self._entropy_key = log_prob_key, entropy_key
        super().__init__(batch_shape=shape, event_shape=torch.Size(()), validate_args=False)

    @classmethod
    def from_distributions(
        cls,
        params: Any,
        distributions: Mapping[Any, D.Distribution],
        *,
        name_map: Mapping[Any, Any] | None = None,
        log_prob_key: Any = None,
        entropy_key: Any = None,
    ) -> CompositeDistribution:
        """One distribution of those that are made already; `params` gives the batch size."""
        self = cls.__new__(cls)
        made = {unravel_key(name): distribution for name, distribution in distributions.items()}
        self._fill(params.shape, made, name_map, log_prob_key, entropy_key)
        return self

    # --- a mapping

    def __getitem__(self, item: Any) -> Any:
        """The distribution of the samples at a key."""
        return self.dists[unravel_key(item)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dists)

    def __len__(self) -> int:
        return len(self.dists)

    def __repr__(self) -> str:
        return f"CompositeDistribution({', '.join(f'{key}={value}' for key, value in self.dists.items())})"

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    # --- keys

    @property
    def log_prob_key(self) -> Any:
        """Where the sum of the log-probabilities goes."""
        return "sample_log_prob" if self._log_prob_key is None else self._log_prob_key

    @log_prob_key.setter
    def log_prob_key(self, key: Any) -> None:
        self._log_prob_key = key

    @property
    def entropy_key(self) -> Any:
        """Where the sum of the entropies goes."""
        return "entropy" if self._entropy_key is None else self._entropy_key

    @entropy_key.setter
    def entropy_key(self, key: Any) -> None:
        self._entropy_key = key

    # --- samples

    def _each(self, make: Callable[[Any], Tensor], shape: torch.Size | None = None) -> Any:
        size = self.batch_shape if shape is None else shape + self.batch_shape
        samples = TensorDict(batch_size=size)
        for key, distribution in self.dists.items():
            samples.set(key, make(distribution))
        return samples

    def sample(self, shape: Any = None) -> Any:
        """Draw a TensorDict of batch size (*shape, *batch_shape)."""
        size = torch.Size(shape or ())
        return self._each(lambda distribution: distribution.sample(size), size)

    def rsample(self, shape: Any = None) -> Any:
        """Draw a TensorDict with gradients.

        Raises:
            NotImplementedError: one of the distributions has no such samples.
        """
        size = torch.Size(shape or ())
        return self._each(lambda distribution: distribution.rsample(size), size)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether all have samples with gradients."""
        return all(distribution.has_rsample for distribution in self.dists.values())

    @property
    def mode(self) -> Any:
        """The modes."""
        return self._each(lambda distribution: distribution.mode)

    @property
    def mean(self) -> Any:
        """The means."""
        return self._each(lambda distribution: distribution.mean)

    @property
    def deterministic_sample(self) -> Any:
        """`deterministic_sample` of each, else the mode of discrete and the mean of continuous distributions."""
        return self._each(deterministic)

    # --- densities

    def log_prob(self, sample: Any) -> Any:
        """Log-probabilities of a TensorDict of samples.

        Returns:
            A TensorDict with `<key>_log_prob` for each key; or, with `set_composite_lp_aggregate(True)`, their sum as a
            tensor of the batch shape.
        """
        if composite_lp_aggregate():
            return self._total(self._log_probs(sample), sample.batch_dims)
        return self._named(self._log_probs(sample), "log_prob", None, sample.empty(recurse=True)).filter_empty_()

    def log_prob_composite(self, sample: Any, *, include_sum: bool | None = None) -> Any:
        """The log-probabilities under `<key>_log_prob`, and with `include_sum` their sum under `log_prob_key`.

        Args:
            sample: a TensorDict of samples.
            include_sum: follows `set_composite_lp_aggregate` if not given; then the samples come along, as upstream.
        """
        include, parts = self._includes(include_sum), self._log_probs(sample)
        total = self.log_prob_key if include else None
        named = self._named(parts, "log_prob", total, sample.empty(recurse=True)).filter_empty_()
        return sample.copy().update(named) if include_sum is None and include else named

    def entropy(
        self, samples_mc: int = 1, *, aggregate_probabilities: bool | None = None, include_sum: bool | None = None
    ) -> Any:
        """Entropies, in nats: a TensorDict with `<key>_entropy` for each key, or their sum as a tensor.

        Args:
            samples_mc: how many samples estimate an entropy that has no formula.
            aggregate_probabilities: True for the sum alone; follows `set_composite_lp_aggregate` if not given.
            include_sum: add the sum under `entropy_key`.
        """
        if composite_lp_aggregate() if aggregate_probabilities is None else aggregate_probabilities:
            return self._total(self._entropies(samples_mc), len(self.batch_shape))
        return self.entropy_composite(samples_mc, include_sum=include_sum)

    def entropy_composite(self, samples_mc: int = 1, *, include_sum: bool | None = None) -> Any:
        """The entropies under `<key>_entropy`, and with `include_sum` their sum under `entropy_key`."""
        key = self.entropy_key if self._includes(include_sum) else None
        return self._named(self._entropies(samples_mc), "entropy", key, TensorDict(batch_size=self.batch_shape))

    def cdf(self, sample: Any) -> Any:
        """The samples, and under `<key>_cdf` how likely less is."""
        return self._beside(sample, "cdf", lambda key: sample.get(key))

    def icdf(self, sample: Any) -> Any:
        """The probabilities, of `<key>_cdf` or else `<key>`, and under `<key>_icdf` the value below which they lie."""

        def probability(key: Any) -> Tensor:
            found = sample.get(_suffixed(key, "cdf"), None)
            return sample.get(key) if found is None else found

        return self._beside(sample, "icdf", probability)

    # --- how

    def _includes(self, include_sum: bool | None) -> bool:
        return bool(composite_lp_aggregate()) if include_sum is None else include_sum

    def _log_probs(self, sample: Any) -> dict[Any, Tensor]:
        return {key: distribution.log_prob(sample.get(key)) for key, distribution in self.dists.items()}

    def _entropies(self, samples: int) -> dict[Any, Tensor]:
        return {key: _entropy(distribution, samples) for key, distribution in self.dists.items()}

    def _total(self, parts: dict[Any, Tensor], dims: int) -> Tensor:
        """The sum over keys, and over what dimensions a part has beyond the batch."""
        flat = [part.flatten(dims).sum(-1) if part.dim() > dims else part for part in parts.values()]
        return torch.stack(flat).sum(0)

    def _named(self, parts: dict[Any, Tensor], suffix: str, total: Any, named: Any) -> Any:
        """`named`, which gives the order of what is nested, with the parts and their sum."""
        for key, part in parts.items():
            named.set(_suffixed(key, suffix), part)
        return named if total is None else named.set(total, self._total(parts, named.batch_dims))

    def _beside(self, sample: Any, name: str, value: Callable[[Any], Tensor]) -> Any:
        result = sample.copy()
        for key, distribution in self.dists.items():
            result.set(_suffixed(key, name), getattr(distribution, name)(value(key)))
        return result


def _suffixed(key: Any, suffix: str) -> Any:
    return f"{key}_{suffix}" if isinstance(key, str) else (*key[:-1], f"{key[-1]}_{suffix}")


def _entropy(distribution: D.Distribution, samples: int) -> Tensor:
    try:
        found: Any = distribution.entropy
        return found() if callable(found) else found
    except NotImplementedError:
        draw = distribution.rsample if distribution.has_rsample else distribution.sample
        return -distribution.log_prob(draw(torch.Size((samples,)))).mean(0)
