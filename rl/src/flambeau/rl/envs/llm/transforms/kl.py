"""Divergences of a policy from a reference model, as penalties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.rl.data.tensor_specs import Composite, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.llm.transforms._log_probs import conversation, masked, model_rows, write_rows
from flambeau.rl.envs.transforms import Compose
from flambeau.rl.envs.transforms._base.transform import Transform
from flambeau.rl.envs.transforms.ray_service import RayTransform, _RayServiceMetaClass

__all__ = [
    "KLComputation",
    "KLRewardTransform",
    "RayKLRewardTransform",
    "RayRetrieveKL",
    "RetrieveKL",
    "RetrieveLogProb",
]

GEN_KEY: NestedKey = ("log_probs", "full")
REF_KEY: NestedKey = ("ref_log_probs", "full")


def _made(model: Any, factory: Callable[[], Any] | None, name: str) -> Any:
    if model is not None and factory is not None:
        raise ValueError(f"Give {name}, or {name}_factory, and not both.")
    return factory() if factory is not None else model


class RetrieveLogProb(Transform):
    """Writes how likely a model finds each token of a conversation that a step has led to.

    Args:
        model: scores sequences: an `LLMWrapperBase` with `generate=False` and `return_log_probs=True`.
        log_probs_full_key: of the log-probabilities (*batch, T); default: (the model's `log_probs_key`, "full").
        assistant_only: those of tokens that the assistant did not say become 0.
        tokenizer_kwargs: of the chat template by which the assistant's tokens are found, where the model does not say.
        detach: without gradients.
        device: where the model is moved to, and where data are scored; default: as they are.
        tokenizer: by which the assistant's tokens are found; default: the model's.
        padding_side: where data of different lengths are filled up.

    Raises:
        ValueError: the model gives no log-probabilities, continues prompts, or reads no conversations while
            `assistant_only`.
    """

    def __init__(
        self,
        model: Any,
        *,
        log_probs_full_key: NestedKey | None = None,
        assistant_only: bool = True,
        tokenizer_kwargs: dict[str, Any] | None = None,
        detach: bool = True,
        device: Any = None,
        tokenizer: Any = None,
        padding_side: str = "left",
    ) -> None:
        _check(model, assistant_only)
        key = (model.log_probs_key, "full") if log_probs_full_key is None else log_probs_full_key
        super().__init__([(model.input_mode, "full")], [key])
        self.__dict__["_model"] = model if device is None else model.to(device)
        self.log_probs_full_key = key
        self.assistant_only = assistant_only
        self.tokenizer_kwargs = dict(tokenizer_kwargs or {})
        self.detach = detach
        self._device = None if device is None else torch.device(device)
        self.tokenizer = getattr(model, "tokenizer", None) if tokenizer is None else tokenizer
        self.padding_side = padding_side

    @property
    def model(self) -> Any:
        """The model."""
        return self.__dict__["_model"]

    @property
    def device(self) -> Any:
        """Where data are scored; None where they are."""
        return self._device

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move the model, and score data there."""
        self.__dict__["_model"] = self.model.to(*args, **kwargs)
        device = torch._C._nn._parse_to(*args, **kwargs)[0]
        if device is not None:
            self._device = torch.device(device)
        return super().to(*args, **kwargs)

    def forward(self, tensordict: Any) -> Any:
        """Score the conversations of a batch of steps.

        Args:
            tensordict: with "next", where log-probabilities are written.
        """
        self._retrieved(tensordict, tensordict.get("next", tensordict))
        return tensordict

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return self._retrieved(tensordict, next_tensordict)

    def _retrieved(self, tensordict: Any, next_tensordict: Any) -> Any:
        given = conversation(tensordict, next_tensordict, self.model)
        given = given if self._device is None else given.to(self._device)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.detach):
            found = self.model(given.copy())
        rows = model_rows(found, (self.model.log_probs_key, "full"))
        if self.assistant_only:
            rows = masked(rows, found, given, self.model, self.tokenizer, self.tokenizer_kwargs)
        if self.detach:
            rows = [row.detach() for row in rows]
        return write_rows(next_tensordict, self.log_probs_full_key, rows, self.model.pad_output, self.padding_side)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:  # type: ignore[override]
        """With log-probabilities.

        Args:
            observation_spec: a composite.
        """
        observation_spec[self.log_probs_full_key] = _ragged_spec(observation_spec)
        return observation_spec


def _ragged_spec(spec: Composite) -> Any:
    made = Unbounded((*spec.shape, 1), dtype=torch.float32, device=spec.device)
    made.shape = torch.Size([*spec.shape, -1])
    return made


def _check(model: Any, assistant_only: bool) -> None:
    if getattr(model, "generate", False):
        raise ValueError("The model continues prompts; it is to score them: give one with generate=False.")
    if not getattr(model, "return_log_probs", True):
        raise ValueError("The model gives no log-probabilities: give one with return_log_probs=True.")
    if assistant_only and model.input_mode != "history":
        raise ValueError(
            f"What the assistant said is known of conversations alone, and the model's input_mode is "
            f"{model.input_mode!r}: give assistant_only=False."
        )


class KLComputation(Transform):
    """Writes the difference of two log-probabilities of each token, and takes it off the reward.

    Its mean over what the policy says is the estimate k1 of the divergence of the policy from the reference.

    Args:
        gen_log_probs_full_key: of the policy's log-probabilities (*batch, T).
        ref_log_probs_full_key: of the reference's, of the same shape.
        kl_key: of the differences (*batch, T).
        add_to_reward: the reward becomes `reward - coeff * difference`, of shape (*batch, T, 1).
        coeff: see there.
        padding_side: where data of different lengths are filled up.

    References:
        J. Schulman, Approximating KL Divergence, 2020, http://joschu.net/blog/kl-approx.html.
    """

    def __init__(
        self,
        gen_log_probs_full_key: NestedKey = GEN_KEY,
        ref_log_probs_full_key: NestedKey = REF_KEY,
        *,
        kl_key: NestedKey = "kl_penalty",
        add_to_reward: bool = True,
        coeff: float = 1.0,
        padding_side: str = "left",
    ) -> None:
        super().__init__(
            [gen_log_probs_full_key, ref_log_probs_full_key], [kl_key, *(["reward"] if add_to_reward else [])]
        )
        self.gen_log_probs_full_key = gen_log_probs_full_key
        self.ref_log_probs_full_key = ref_log_probs_full_key
        self.kl_key = kl_key
        self.add_to_reward = add_to_reward
        self.coeff = coeff
        self.padding_side = padding_side

    def forward(self, tensordict: Any) -> Any:
        """Compare the log-probabilities of a batch of steps.

        Args:
            tensordict: with "next", where they are.

        Raises:
            KeyError: there are none.
        """
        nested = tensordict.get("next", None)
        self._compared(tensordict if nested is None else nested)
        return tensordict

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return self._compared(next_tensordict)

    def _compared(self, tensordict: Any) -> Any:
        rows = []
        for key in (self.gen_log_probs_full_key, self.ref_log_probs_full_key):
            if key not in tensordict.keys(True):
                raise self._missing(key, tensordict)
            rows.append(model_rows(tensordict, key))
        for generated, reference in zip(*rows, strict=True):
            if generated.shape != reference.shape:
                raise ValueError(
                    f"Log-probabilities at {self.gen_log_probs_full_key!r} and {self.ref_log_probs_full_key!r} are of "
                    f"the same tokens; their shapes are {tuple(generated.shape)} and {tuple(reference.shape)}. Both "
                    "models need the same pad_output."
                )
        differences = [generated - reference for generated, reference in zip(*rows, strict=True)]
        padded = len({row.shape for row in differences}) == 1
        found = write_rows(tensordict, self.kl_key, differences, padded, self.padding_side)
        return self._penalized(found, differences, padded) if self.add_to_reward else found

    def _penalized(self, tensordict: Any, differences: list[Tensor], padded: bool) -> Any:
        if "reward" not in tensordict.keys(True):
            raise self._missing("reward", tensordict)
        rewards = model_rows(tensordict, "reward")
        rows = []
        for reward, difference in zip(rewards, differences, strict=True):
            penalty = self.coeff * difference.unsqueeze(-1)
            rows.append((reward if reward.ndim > 1 else reward.unsqueeze(-1)) - penalty.to(reward.device))
        return write_rows(tensordict, "reward", rows, padded, self.padding_side)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:  # type: ignore[override]
        """With the differences.

        Args:
            observation_spec: a composite.
        """
        observation_spec[self.kl_key] = _ragged_spec(observation_spec)
        return observation_spec

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:  # type: ignore[override]
        """With a reward for each token.

        Args:
            reward_spec: a composite.
        """
        if self.add_to_reward:
            made = Unbounded((*reward_spec.shape, 1, 1), dtype=torch.float32, device=reward_spec.device)
            made.shape = torch.Size([*reward_spec.shape, -1, 1])
            reward_spec["reward"] = made
        return reward_spec


class RetrieveKL(Compose, metaclass=_RayServiceMetaClass):
    """Two `RetrieveLogProb` and a `KLComputation`: how much less likely a reference finds what a policy said.

    Args:
        gen_model: the policy as a model that scores, or "from_collector": the collector's.
        ref_model: the reference.
        gen_model_factory: makes the first, instead.
        ref_model_factory: makes the second, instead.
        assistant_only: as for `RetrieveLogProb`.
        history_key: of the conversations.
        tokenizer_kwargs: as for `RetrieveLogProb`.
        detach: as for `RetrieveLogProb`.
        device: as for `RetrieveLogProb`.
        tokenizer: as for `RetrieveLogProb`.
        padding_side: as for `RetrieveLogProb`.
        gen_log_probs_full_key: of the policy's log-probabilities.
        ref_log_probs_full_key: of the reference's.
        kl_key: as for `KLComputation`.
        add_to_reward: as for `KLComputation`.
        coeff: as for `KLComputation`.
        use_ray_service: run the models in an actor of Ray; see `RayRetrieveKL`.
        kwargs: of `RetrieveLogProb`.

    Raises:
        ValueError: there is no reference; or the models fill up what they give in different ways.
    """

    _RayServiceClass = staticmethod(lambda: RayRetrieveKL)

    def __init__(
        self,
        gen_model: Any | Literal["from_collector"] = "from_collector",
        ref_model: Any = None,
        *,
        gen_model_factory: Callable[[], Any] | None = None,
        ref_model_factory: Callable[[], Any] | None = None,
        assistant_only: bool = True,
        history_key: str = "history",
        tokenizer_kwargs: dict[str, Any] | None = None,
        detach: bool = True,
        device: Any = None,
        tokenizer: Any = None,
        padding_side: str = "left",
        gen_log_probs_full_key: NestedKey = GEN_KEY,
        ref_log_probs_full_key: NestedKey = REF_KEY,
        kl_key: NestedKey = "kl_penalty",
        add_to_reward: bool = True,
        coeff: float = 1.0,
        use_ray_service: bool = False,
        **kwargs: Any,
    ) -> None:
        generator = _made(None if gen_model_factory is not None else gen_model, gen_model_factory, "gen_model")
        reference = _made(ref_model, ref_model_factory, "ref_model")
        if reference is None:
            raise ValueError("RetrieveKL compares with a reference: give ref_model, or ref_model_factory.")
        options = {
            "assistant_only": assistant_only, "tokenizer_kwargs": tokenizer_kwargs, "detach": detach, "device": device,
            "tokenizer": tokenizer, "padding_side": padding_side, **kwargs,
        }  # fmt: skip
        self.__dict__["_waiting"] = (options, gen_log_probs_full_key) if isinstance(generator, str) else None
        if isinstance(generator, str) and generator != "from_collector":
            raise ValueError(f"gen_model is a model, or 'from_collector'; got {generator!r}.")
        computation = KLComputation(
            gen_log_probs_full_key, ref_log_probs_full_key, kl_key=kl_key, add_to_reward=add_to_reward, coeff=coeff,
            padding_side=padding_side,
        )  # fmt: skip
        transforms: list[Transform] = [RetrieveLogProb(reference, log_probs_full_key=ref_log_probs_full_key, **options)]
        if not isinstance(generator, str):
            _agree(generator, reference)
            transforms.insert(0, RetrieveLogProb(generator, log_probs_full_key=gen_log_probs_full_key, **options))
        super().__init__(*transforms, computation)
        self.gen_model = generator
        self.ref_model = reference

    def _begun(self) -> None:
        """Take the policy from the collector, at the first use."""
        waiting = self.__dict__["_waiting"]
        if waiting is None:
            return
        collector = self.collector
        if collector is None:
            raise RuntimeError("gen_model='from_collector' needs a collector, which is not there; give a model.")
        options, key = waiting
        policy = collector.policy
        scoring = policy.get_new_version(generate=False, return_log_probs=True, input_key=None)
        _agree(scoring, self.ref_model)
        self.__dict__["_waiting"] = None
        self.insert(0, RetrieveLogProb(scoring, log_probs_full_key=key, **options))

    def forward(self, tensordict: Any = None) -> Any:
        """Compare what the models find of a batch of steps.

        Args:
            tensordict: with "next".
        """
        self._begun()
        for each in self.transforms:
            tensordict = each(tensordict)
        return tensordict

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        self._begun()
        return super()._step(tensordict, next_tensordict)


def _agree(generator: Any, reference: Any) -> None:
    if generator.pad_output != reference.pad_output:
        raise ValueError(
            f"Both models fill up what they give, or neither; pad_output is {generator.pad_output} of gen_model and "
            f"{reference.pad_output} of ref_model."
        )


class KLRewardTransform(Transform, metaclass=_RayServiceMetaClass):
    """Takes the divergence of what a policy said from a reference model off the reward; an older form of `RetrieveKL`.

    The policy's own log-probabilities are read, as it wrote them at `log_prob_key`.

    Args:
        ref_model: scores sequences, as for `RetrieveLogProb`.
        ref_model_factory: makes it, instead.
        coef: of the penalty.
        in_keys: of rewards; default: "reward".
        out_keys: of rewards with the penalty, and of the penalty; default: "reward", "kl_penalty", and of the
            reference's log-probabilities, "ref_log_prob".
        log_prob_key: of the policy's log-probabilities.
        device: where the model is moved to, and data are scored.
        add_to_reward: take the penalty off the reward.
        tokenizer: by which the assistant's tokens are found; default: the model's.
        assistant_only: count those alone.
        padding_side: where data of different lengths are filled up.
        use_ray_service: run the model in an actor of Ray; see `RayKLRewardTransform`.

    Raises:
        ValueError: there is no reference, or it does not score.
    """

    DEFAULT_IN_KEYS = ["reward"]
    _RayServiceClass = staticmethod(lambda: RayKLRewardTransform)

    def __init__(
        self,
        ref_model: Any = None,
        *,
        ref_model_factory: Callable[[], Any] | None = None,
        coef: float = 1.0,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        log_prob_key: NestedKey = ("log_probs", "full"),
        device: Any = None,
        add_to_reward: bool = True,
        tokenizer: Any = None,
        assistant_only: bool = True,
        padding_side: str = "left",
        use_ray_service: bool = False,
    ) -> None:
        reference = _made(ref_model, ref_model_factory, "ref_model")
        if reference is None:
            raise ValueError("KLRewardTransform compares with a reference: give ref_model, or ref_model_factory.")
        in_keys = self.DEFAULT_IN_KEYS if in_keys is None else list(in_keys)
        out_keys = [*in_keys, "kl_penalty", "ref_log_prob"] if out_keys is None else list(out_keys)
        if len(in_keys) != 1 or len(out_keys) != 3:
            raise ValueError(f"There is one in_key and three out_keys; got {in_keys} and {out_keys}.")
        super().__init__(in_keys, out_keys)
        self.coef = coef
        self.log_prob_key = log_prob_key
        self.add_to_reward = add_to_reward
        self.assistant_only = assistant_only
        self.padding_side = padding_side
        self._reference = RetrieveLogProb(
            reference, log_probs_full_key=out_keys[2], assistant_only=assistant_only, device=device,
            tokenizer=tokenizer, padding_side=padding_side,
        )  # fmt: skip

    @property
    def device(self) -> Any:
        """Where data are scored; None where they are."""
        return self._reference.device

    @property
    def tokenizer(self) -> Any:
        """By which the assistant's tokens are found."""
        return self._reference.tokenizer

    @property
    def pad_output(self) -> bool:
        """Whether the reference fills up what it gives."""
        return bool(self._reference.model.pad_output)

    @property
    def action_key(self) -> NestedKey:
        """Of what the policy said."""
        parent = self.parent
        return (self._reference.model.input_mode, "full") if parent is None else parent.action_keys[0]

    def set_container(self, container: Any) -> None:
        """Say what the transform is part of.

        Args:
            container: as for other transforms.
        """
        super().set_container(container)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move the reference, and score data there."""
        self._reference.to(*args, **kwargs)
        return self

    def forward(self, tensordict: Any) -> Any:
        """Penalize a batch of steps.

        Args:
            tensordict: with "next"; and with the policy's log-probabilities.
        """
        self._penalized(tensordict, tensordict.get("next", tensordict))
        return tensordict

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return self._penalized(tensordict, next_tensordict)

    def _penalized(self, tensordict: Any, next_tensordict: Any) -> Any:
        key = self.log_prob_key
        holder = tensordict if key in tensordict.keys(True) else next_tensordict
        if key not in holder.keys(True):
            raise self._missing(key, tensordict)
        found = self._reference._retrieved(tensordict, next_tensordict)
        references = model_rows(found, self.out_keys[2])
        # Tokens that do not count are 0 in the reference's, and made so in the policy's.
        counted = [reference != 0 if self.assistant_only else torch.ones_like(reference) for reference in references]
        pairs = zip(model_rows(holder, key), references, counted, strict=True)
        differences = [generated * count - reference for generated, reference, count in pairs]
        padded = len({row.shape for row in differences}) == 1
        found = write_rows(found, self.out_keys[1], differences, padded, self.padding_side)
        if not self.add_to_reward or self.in_keys[0] not in found.keys(True):
            return found
        rewards = model_rows(found, self.in_keys[0])
        rows = [
            (reward if reward.ndim > 1 else reward.unsqueeze(-1)) - self.coef * difference.unsqueeze(-1)
            for reward, difference in zip(rewards, differences, strict=True)
        ]
        return write_rows(found, self.out_keys[0], rows, padded, self.padding_side)

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """With the penalty and the reference's log-probabilities.

        Args:
            output_spec: a composite of composites.
        """
        seen: Any = output_spec["full_observation_spec"]
        for key in self.out_keys[1:]:
            seen[key] = _ragged_spec(seen)
        output_spec["full_observation_spec"] = seen
        if self.add_to_reward and "full_reward_spec" in output_spec.keys():  # noqa: SIM118  # no dictionary
            rewards: Any = output_spec["full_reward_spec"]
            made = Unbounded((*rewards.shape, 1, 1), dtype=torch.float32, device=rewards.device)
            made.shape = torch.Size([*rewards.shape, -1, 1])
            rewards[self.out_keys[0]] = made
            output_spec["full_reward_spec"] = rewards
        return output_spec


class _RayModels(RayTransform):
    """A transform with models, in an actor of Ray."""

    _KIND: Any = None

    def _create_actor(self, **kwargs: Any) -> Any:
        return self._hosted(self._KIND, **kwargs)


class RayRetrieveKL(_RayModels):
    """`RetrieveKL` in an actor of Ray, whose models environments share.

    Args:
        gen_model: as for `RetrieveKL`; is sent to the actor.
        ref_model: likewise.
        gen_model_factory: makes it there, instead.
        ref_model_factory: likewise.
        num_cpus: of the actor; default: 1.
        num_gpus: of the actor.
        device: where data are here.
        actor_name: of an actor that is used where it exists already.
        kwargs: of `RetrieveKL`.

    Raises:
        ImportError: Ray is not installed.
        ValueError: the policy is to come from a collector, which the actor does not have.
    """

    _KIND = RetrieveKL

    def __init__(
        self,
        gen_model: Any | Literal["from_collector"] | None = "from_collector",
        ref_model: Any = None,
        *,
        gen_model_factory: Callable[[], Any] | None = None,
        ref_model_factory: Callable[[], Any] | None = None,
        num_cpus: int | None = None,
        num_gpus: int = 0,
        device: Any = None,
        actor_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if gen_model_factory is None and (gen_model is None or isinstance(gen_model, str)):
            raise ValueError("An actor has no collector to take the policy from: give gen_model or gen_model_factory.")
        super().__init__(
            num_cpus=num_cpus, num_gpus=num_gpus, device=device, actor_name=actor_name, gen_model=gen_model,
            ref_model=ref_model, gen_model_factory=gen_model_factory, ref_model_factory=ref_model_factory, **kwargs,
        )  # fmt: skip


class RayKLRewardTransform(_RayModels):
    """`KLRewardTransform` in an actor of Ray, whose reference environments share.

    Args:
        ref_model: as for `KLRewardTransform`; is sent to the actor.
        ref_model_factory: makes it there, instead.
        num_cpus: of the actor; default: 1.
        num_gpus: of the actor.
        device: where data are here.
        actor_name: of an actor that is used where it exists already.
        kwargs: of `KLRewardTransform`.

    Raises:
        ImportError: Ray is not installed.
    """

    _KIND = KLRewardTransform

    def __init__(
        self,
        ref_model: Any = None,
        *,
        ref_model_factory: Callable[[], Any] | None = None,
        num_cpus: int | None = None,
        num_gpus: int = 0,
        device: Any = None,
        actor_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_cpus=num_cpus, num_gpus=num_gpus, device=device, actor_name=actor_name, ref_model=ref_model,
            ref_model_factory=ref_model_factory, **kwargs,
        )  # fmt: skip
