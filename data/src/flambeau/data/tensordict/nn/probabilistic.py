"""Modules that build a distribution from entries of a tensordict and write a value taken from it."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D

from flambeau.data.tensordict._layout.keys import unravel_key
from flambeau.data.tensordict._tensorcollection import is_tensor_collection
from flambeau.data.tensordict.nn._dispatch import dispatch
from flambeau.data.tensordict.nn._interaction import InteractionType as InteractionType
from flambeau.data.tensordict.nn._interaction import interaction_type as interaction_type
from flambeau.data.tensordict.nn._interaction import set_interaction_type as set_interaction_type
from flambeau.data.tensordict.nn._module import one_or_more
from flambeau.data.tensordict.nn._module_base import TensorDictModuleBase
from flambeau.data.tensordict.nn._probabilistic_sequence import (
    ProbabilisticTensorDictSequential as ProbabilisticTensorDictSequential,
)
from flambeau.data.tensordict.nn.distributions._reading import deterministic, mean_of, median_of
from flambeau.data.tensordict.nn.distributions.composite import CompositeDistribution, _suffixed
from flambeau.data.tensordict.nn.distributions.continuous import Delta
from flambeau.data.tensordict.nn.utils import composite_lp_aggregate, set_skip_existing

__all__ = [
    "InteractionType",
    "ProbabilisticTensorDictModule",
    "ProbabilisticTensorDictSequential",
    "interaction_type",
    "set_interaction_type",
]


class ProbabilisticTensorDictModule(TensorDictModuleBase):
    """Build a distribution from entries, take a value from it as `set_interaction_type` says, and write it.

    Args:
        in_keys: the parameters; the last part of each key names the argument, or a dict maps arguments to keys. For a
            `CompositeDistribution` one key with all parameters.
        out_keys: where values go; those of the composite distribution, or "_", if not given.
        default_interaction_type: how a value is taken where no context says it.
        distribution_class: makes the distribution.
        distribution_kwargs: further arguments of it.
        return_log_prob: write the log-probability too.
        log_prob_keys: where, one for each of `out_keys`; `<key>_log_prob` if not given.
        log_prob_key: where, for one value or with `set_composite_lp_aggregate(True)`, then "sample_log_prob".
        cache_dist: keep the distribution and call its `update(...)`, if it has that, in place of a new one.
        n_empirical_estimate: how many samples estimate a mean that has no formula.
        num_samples: draw several values, along new first dimensions of the whole tensordict.
        generator: for random values: a generator on the CPU, a seed for one, or the key of an entry that holds one.

    Example:
        >>> module = ProbabilisticTensorDictModule(
        ...     in_keys=["loc", "scale"], out_keys=["action"], distribution_class=torch.distributions.Normal
        ... )
        >>> with set_interaction_type("mean"):
        ...     print(module(TensorDict(loc=torch.zeros(1), scale=torch.ones(1)))["action"])
        tensor([0.])
    """

    _has_distribution = True

    def __init__(
        self,
        in_keys: Any,
        out_keys: Any = None,
        *,
        default_interaction_type: InteractionType | str = InteractionType.DETERMINISTIC,
        distribution_class: Any = Delta,
        distribution_kwargs: dict[str, Any] | None = None,
        return_log_prob: bool = False,
        log_prob_keys: Sequence[Any] | None = None,
        log_prob_key: Any = None,
        cache_dist: bool = False,
        n_empirical_estimate: int = 1000,
        num_samples: int | torch.Size | Sequence[int] | None = None,
        generator: torch.Generator | int | str | tuple[str, ...] | None = None,
    ) -> None:
        super().__init__()
        self.distribution_class, self.distribution_kwargs = distribution_class, dict(distribution_kwargs or {})
        if isinstance(in_keys, dict):
            self._arguments = {name: unravel_key(key) for name, key in in_keys.items()}
        else:
            self._arguments = {key if isinstance(key, str) else key[-1]: key for key in one_or_more(in_keys)}
        self.in_keys = list(self._arguments.values())
        self._sample_keys = self._default_out_keys() if out_keys is None else one_or_more(out_keys)
        self.default_interaction_type = InteractionType.from_str(default_interaction_type)
        self.return_log_prob, self.cache_dist, self._dist = return_log_prob, cache_dist, None
        self.n_empirical_estimate = n_empirical_estimate
        self.num_samples = (num_samples,) if isinstance(num_samples, int) else num_samples and tuple(num_samples)
        self.generator: Any = torch.Generator().manual_seed(generator) if isinstance(generator, int) else generator
        self._choose_log_prob_keys(log_prob_keys, log_prob_key)
        self.out_keys = [*self._sample_keys, *(self._written_log_prob_keys() if return_log_prob else ())]

    # --- keys

    def _default_out_keys(self) -> list[Any]:
        kwargs = self.distribution_kwargs
        names = kwargs.get("name_map") or {}
        keys = [unravel_key(names.get(name, name)) for name in kwargs.get("distribution_map", ())]
        return keys or ["_"]

    def _choose_log_prob_keys(self, keys: Sequence[Any] | None, key: Any) -> None:
        if keys is not None and len(keys) != len(self._sample_keys):
            raise ValueError(f"log_prob_keys has {len(keys)} keys, expected one for each of {self._sample_keys}.")
        if keys is None and key is not None and not composite_lp_aggregate() and len(self._sample_keys) == 1:
            keys = [key]
        self._log_prob_key = None if key is None else unravel_key(key)
        self._own_log_prob_keys = None if keys is None else [unravel_key(each) for each in keys]

    def _written_log_prob_keys(self) -> list[Any]:
        return [self.log_prob_key] if composite_lp_aggregate() else self.log_prob_keys

    @property
    def dist_params_keys(self) -> list[Any]:
        """The keys of the parameters."""
        return list(self.in_keys)

    @property
    def dist_sample_keys(self) -> list[Any]:
        """The keys of the values."""
        return list(self._sample_keys)

    @property
    def log_prob_keys(self) -> list[Any]:
        """Where log-probabilities go, one key for each value, or one for their sum."""
        if self._own_log_prob_keys is not None:
            return list(self._own_log_prob_keys)
        if composite_lp_aggregate():
            return [self.log_prob_key]
        return [_suffixed(key, "log_prob") for key in self._sample_keys]

    @property
    def log_prob_key(self) -> Any:
        """Where the log-probability goes, if it is one.

        Raises:
            RuntimeError: there are several.
        """
        if self._log_prob_key is not None:
            return self._log_prob_key
        if composite_lp_aggregate():
            return "sample_log_prob"
        if len(self.log_prob_keys) != 1:
            raise RuntimeError(f"there are several log-probabilities, {self.log_prob_keys}; see log_prob_keys.")
        return self.log_prob_keys[0]

    @property
    def SAMPLE_LOG_PROB_KEY(self) -> Any:
        """The former name of `log_prob_key`."""
        return self.log_prob_key

    # --- distributions

    def build_dist_from_params(self, tensordict: Any) -> D.Distribution:
        """The distribution that the entries describe; the same as `get_dist`."""
        return self.get_dist(tensordict)

    def get_dist(self, tensordict: Any) -> D.Distribution:
        """The distribution that the entries describe.

        Raises:
            KeyError: an entry is absent.
            TypeError: the class does not take these arguments; the message names both.
        """
        values = {name: tensordict.get(key, None) for name, key in self._arguments.items()}
        if absent := [self._arguments[name] for name, value in values.items() if value is None]:
            raise KeyError(
                f"the distribution's parameters {absent} are absent; the tensordict has "
                f"{list(tensordict.keys(True, True))[:10]}."
            )
        if self.distribution_class is CompositeDistribution:
            if len(values) != 1:
                raise ValueError(f"a composite distribution takes one key with all parameters, got {self.in_keys}.")
            (params,) = values.values()
            return CompositeDistribution(params, **self._composite_kwargs())
        if self.cache_dist and self._dist is not None and hasattr(self._dist, "update"):
            self._dist.update(**values)
            return self._dist
        try:
            dist = self.distribution_class(**values, **self.distribution_kwargs)
        except TypeError as error:
            raise TypeError(
                f"{getattr(self.distribution_class, '__name__', self.distribution_class)} is called with the arguments "
                f"{list(values)}: {error}. A dict in_keys maps its arguments to keys."
            ) from error
        if self.cache_dist:
            self._dist = dist
        return dist

    def _composite_kwargs(self) -> dict[str, Any]:
        kwargs = self.distribution_kwargs
        return kwargs if self._log_prob_key is None else {"log_prob_key": self._log_prob_key, **kwargs}

    def log_prob(self, tensordict: Any, *, dist: D.Distribution | None = None) -> Any:
        """The log-probability of the values that the tensordict holds.

        Args:
            tensordict: holds parameters and values.
            dist: the distribution, if it is there already.

        Returns:
            A tensor; of a composite distribution a TensorDict, or the sum with `set_composite_lp_aggregate(True)`.
        """
        dist = self.get_dist(tensordict) if dist is None else dist
        if isinstance(dist, CompositeDistribution):
            return dist.log_prob(tensordict)
        return dist.log_prob(tensordict.get(self._sample_keys[0]))

    # --- values

    @dispatch(auto_batch_size=False)
    @set_skip_existing(None)
    def forward(self, tensordict: Any, tensordict_out: Any = None, _requires_sample: bool = True) -> Any:
        """Write a value, and its log-probability if asked for.

        Args:
            tensordict: holds the parameters; or these as tensors, by position or by name.
            tensordict_out: receives the results, in place of the input.
            _requires_sample: False takes the values that are there already.
        """
        dist = self.get_dist(tensordict)
        out = tensordict if tensordict_out is None else tensordict_out
        random = (interaction_type() or self.default_interaction_type) is InteractionType.RANDOM
        if _requires_sample and random and self.num_samples:
            out = out.expand(*self.num_samples, *out.batch_size).clone(False)
        if _requires_sample:
            with self._drawing(tensordict):
                value = self._take(dist)
        else:
            values = [tensordict.get(key) for key in self._sample_keys]
            value = tensordict if isinstance(dist, CompositeDistribution) else values[0]
        if is_tensor_collection(value):
            if value is not tensordict:
                out.update(value)
        else:
            out.set(self._sample_keys[0], value)
        if self.return_log_prob:
            self._write_log_prob(out, dist, value)
        return out

    def _take(self, dist: Any) -> Any:
        kind = interaction_type() or self.default_interaction_type
        if kind is InteractionType.RANDOM:
            shape = torch.Size(self.num_samples or ())
            return dist.rsample(shape) if dist.has_rsample else dist.sample(shape)
        if kind is InteractionType.MODE:
            return dist.mode
        if kind is InteractionType.MEDIAN:
            return median_of(dist)
        return mean_of(dist, self.n_empirical_estimate) if kind is InteractionType.MEAN else deterministic(dist)

    @contextlib.contextmanager
    def _drawing(self, tensordict: Any) -> Iterator[None]:
        generator = self.generator
        if isinstance(generator, (str, tuple)):
            generator = tensordict[generator]
            generator = torch.Generator().manual_seed(int(generator)) if isinstance(generator, Tensor) else generator
        if generator is None:
            yield
            return
        # Distributions draw from torch's global state alone: lend it the generator's.
        with torch.random.fork_rng():
            torch.set_rng_state(generator.get_state())
            yield
            generator.set_state(torch.get_rng_state())

    def _write_log_prob(self, out: Any, dist: Any, value: Any) -> None:
        log_prob = dist.log_prob(value)
        if is_tensor_collection(log_prob):
            for key, sample_key in zip(self.log_prob_keys, self._sample_keys, strict=True):
                out.set(key, log_prob.get(_suffixed(sample_key, "log_prob")))
        else:
            out.set(self._written_log_prob_keys()[0], log_prob)

    def __repr__(self) -> str:
        names = (
            "in_keys", "out_keys", "distribution_class", "distribution_kwargs", "default_interaction_type",
            "num_samples",
        )  # fmt: skip
        lines = textwrap.indent(",\n".join(f"{name}={getattr(self, name)}" for name in names), "    ")
        return f"{type(self).__name__}(\n{lines})"
