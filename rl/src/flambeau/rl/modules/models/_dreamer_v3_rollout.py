"""DreamerV3's state space over sequences, and one step of it while acting (arXiv:2301.04104)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.data.tensordict.nn.common import TensorDictModuleBase
from flambeau.data.tensordict.nn.sequence import TensorDictSequential
from flambeau.rl.modules.models._dreamer_v3_rssm import RSSMPosteriorV3, RSSMPriorV3

PRIOR_OUT = [("next", "prior_logits"), ("next", "state"), ("next", "belief")]
POSTERIOR_IN = [("next", "belief"), ("next", "encoded_latents")]
POSTERIOR_OUT = [("next", "posterior_logits"), ("next", "state")]


class RSSMRolloutV3(TensorDictModuleBase):
    """Prior and posterior over a sequence, along the last dimension of the batch, each step from the last posterior.

    With the keys of the example steps run on tensors, else on tensordicts; results are the same.

    Args:
        rssm_prior: module around `RSSMPriorV3`, reads state, belief and action.
        rssm_posterior: module around `RSSMPosteriorV3`, reads the next belief and the encoded observation, and writes
            the next state.
        reset_key: bool, where episodes begin: state, belief and action are 0 there. None or an absent key: nowhere.
        action_key: of actions; the prior's input besides "state" and "belief" unless given.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> from flambeau.data.tensordict.nn import TensorDictModule
        >>> sizes = dict(hidden_dim=8, num_categoricals=4, num_classes=4, rnn_hidden_dim=8)
        >>> prior = TensorDictModule(
        ...     RSSMPriorV3(action_shape=(2,), action_dim=2, **sizes),
        ...     ["state", "belief", "action"], [("next", "prior_logits"), ("next", "state"), ("next", "belief")],
        ... )
        >>> posterior = TensorDictModule(
        ...     RSSMPosteriorV3(obs_embed_dim=6, **sizes),
        ...     [("next", "belief"), ("next", "encoded_latents")], [("next", "posterior_logits"), ("next", "state")],
        ... )
        >>> data = TensorDict({
        ...     "state": torch.zeros(2, 3, 16), "belief": torch.zeros(2, 3, 8), "action": torch.randn(2, 3, 2),
        ...     "next": {"encoded_latents": torch.randn(2, 3, 6)},
        ... }, [2, 3])
        >>> RSSMRolloutV3(prior, posterior)(data)["next", "state"].shape
        torch.Size([2, 3, 16])
    """

    def __init__(
        self, rssm_prior: Any, rssm_posterior: Any, reset_key: Any = "is_init", action_key: Any = None
    ) -> None:
        super().__init__()
        both = TensorDictSequential(rssm_prior, rssm_posterior)
        self.in_keys, self.out_keys = both.in_keys, both.out_keys
        self.rssm_prior, self.rssm_posterior = rssm_prior, rssm_posterior
        self.reset_key = reset_key
        if action_key is None:
            others = [key for key in rssm_prior.in_keys if key not in ("state", "belief")]
            action_key = others[0] if len(others) == 1 else None
        self.action_key = action_key
        self.__dict__["_stepping"], self.__dict__["_looping"] = self._step, self._loop

    def _runs_on_tensors(self) -> bool:
        prior, posterior = self.rssm_prior, self.rssm_posterior
        return (
            isinstance(getattr(prior, "module", None), RSSMPriorV3)
            and isinstance(getattr(posterior, "module", None), RSSMPosteriorV3)
            and list(prior.in_keys) == ["state", "belief", self.action_key]
            and list(prior.out_keys) == PRIOR_OUT
            and list(posterior.in_keys) == POSTERIOR_IN
            and list(posterior.out_keys) == POSTERIOR_OUT
        )

    def forward(self, tensordict: Any) -> Any:
        """(*batch, T) -> a new one of the same shape, with what each step read and wrote."""
        reset = None if self.reset_key is None else tensordict.get(self.reset_key, None)
        if reset is not None and reset.ndim == tensordict.ndim:
            reset = reset.unsqueeze(-1)
        if not self._runs_on_tensors():
            return self._over_tensordicts(tensordict, reset)
        time = tensordict.ndim - 1
        action, embedding = tensordict.get(self.action_key), tensordict.get(POSTERIOR_IN[1])
        state, belief = (tensordict.get(key).select(time, 0) for key in ("state", "belief"))
        if reset is None:
            reset = torch.zeros(*tensordict.shape, 1, dtype=torch.bool, device=action.device)
        looped = self.__dict__["_looping"](
            state, belief, *(each.movedim(time, 0) for each in (action, embedding, reset))
        )
        result = tensordict.copy()
        keys = ["state", "belief", PRIOR_OUT[0], PRIOR_OUT[2], *POSTERIOR_OUT]
        for key, value in zip(keys, looped, strict=True):
            result.set(key, value.movedim(0, time))
        result.set(self.action_key, action.masked_fill(reset, 0))
        return result

    def _step(
        self, state: Tensor, belief: Tensor, action: Tensor, embedding: Tensor, reset: Tensor, *uniform: Tensor
    ) -> tuple[Tensor, ...]:
        prior_noise, posterior_noise = uniform or (None, None)
        state, belief, action = (each.masked_fill(reset, 0) for each in (state, belief, action))
        prior_logits, _, following = self.rssm_prior.module(state, belief, action, _uniform=prior_noise)
        logits, after = self.rssm_posterior.module(following, embedding, _uniform=posterior_noise)
        return state, belief, prior_logits, following, logits, after

    def _loop(
        self, state: Tensor, belief: Tensor, actions: Tensor, embeddings: Tensor, resets: Tensor
    ) -> tuple[Tensor, ...]:
        steps = []
        for action, embedding, reset in zip(actions, embeddings, resets, strict=True):
            step = self.__dict__["_stepping"](state, belief, action, embedding, reset)
            belief, state = step[3], step[5]
            steps.append(step)
        return tuple(torch.stack(each) for each in zip(*steps, strict=True))

    def _over_tensordicts(self, tensordict: Any, reset: Tensor | None) -> Any:
        time = tensordict.ndim - 1
        done: list[Any] = []
        carried: dict[Any, Any] = {}
        for at, now in enumerate(tensordict.exclude(*self.out_keys).unbind(-1)):
            for key, value in carried.items():
                now.set(key, value)
            if reset is not None:
                starts = reset.select(time, at)
                for key in ("state", "belief", self.action_key):
                    value = None if key is None else now.get(key, None)
                    if value is not None:
                        now.set(key, value.masked_fill(starts.expand_as(value), 0))
            after = self.rssm_posterior(self.rssm_prior(now))
            done.append(after)
            carried = {key: after.get(("next", key)) for key in ("state", "belief")}
        return torch.stack(done, time).contiguous()

    def compile_rollout(
        self, scope: Literal["step", "scan"] = "step", *, unroll: int = 1, compile: bool = True, **compile_kwargs: Any
    ) -> None:
        """Compile the recurrence with `torch.compile`.

        Args:
            scope: "step" compiles one step, which a loop in Python calls. "scan" compiles `unroll` steps in one graph,
                with random numbers drawn before them, so that draws differ from those of "step".
            unroll: number of steps a graph has, > 0.
            compile: False arranges steps so, and leaves compiling to the caller.
            compile_kwargs: of `torch.compile`; `dynamic` is False unless given.

        Raises:
            ValueError: an unknown scope, or `unroll` below 1.
            RuntimeError: keys are others than in the example of the class.
        """
        if scope not in ("step", "scan"):
            raise ValueError(f"scope: it is {scope!r}, expected 'step' or 'scan'.")
        if unroll < 1:
            raise ValueError(f"unroll: it is {unroll}, expected at least 1.")
        if not self._runs_on_tensors():
            raise RuntimeError(
                "compile_rollout: modules have other keys than the usual ones; steps run on tensordicts."
            )
        compile_kwargs.setdefault("dynamic", False)
        if scope == "step":
            self.__dict__["_stepping"] = torch.compile(self._step, **compile_kwargs) if compile else self._step
            return
        several = torch.compile(self._several_steps, **compile_kwargs) if compile else self._several_steps

        def loop(state: Tensor, belief: Tensor, *sequences: Tensor) -> tuple[Tensor, ...]:
            prior = self.rssm_prior.module
            shape = (*sequences[0].shape[:-1], prior.num_categoricals)
            noise = [torch.rand(shape, device=state.device) for _ in range(2)]
            parts, given = [], [*sequences, *noise]
            for at in range(0, len(sequences[0]), unroll):
                part = several(state, belief, *(each[at : at + unroll] for each in given))
                belief, state = part[3][-1], part[5][-1]
                parts.append(part)
            return tuple(torch.cat(each) for each in zip(*parts, strict=True))

        self.__dict__["_looping"] = loop

    def _several_steps(self, state: Tensor, belief: Tensor, *sequences: Tensor) -> tuple[Tensor, ...]:
        steps = []
        for given in zip(*sequences, strict=True):
            step = self._step(state, belief, *given)
            belief, state = step[3], step[5]
            steps.append(step)
        return tuple(torch.stack(each) for each in zip(*steps, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())  # type: ignore[no-untyped-call]
        return {key: value for key, value in state.items() if key not in ("_stepping", "_looping")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.__dict__["_stepping"], self.__dict__["_looping"] = self._step, self._loop


class RSSMStateEstimatorV3(TensorDictModuleBase):
    """State and belief of an agent that acts, from what it did and sees: the prior's recurrence, then the posterior.

    Args:
        prior, posterior: of the world model; parameters are shared with it.
        in_keys: of state, belief and action before the step, the encoded observation, and where episodes begin.
        out_keys: of state and belief, float32.

    Raises:
        ValueError: another number of keys.
    """

    def __init__(
        self, prior: RSSMPriorV3, posterior: RSSMPosteriorV3, *, in_keys: list[Any] | None = None,
        out_keys: list[Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        in_keys = ["state", "belief", "previous_action", "encoded_latents", "is_init"] if in_keys is None else in_keys
        out_keys = ["state", "belief"] if out_keys is None else out_keys
        if len(in_keys) != 5 or len(out_keys) != 2:
            raise ValueError(
                f"RSSMStateEstimatorV3: {len(in_keys)} in_keys and {len(out_keys)} out_keys, expected 5 and 2."
            )
        self.in_keys, self.out_keys = list(in_keys), list(out_keys)
        self.prior, self.posterior = prior, posterior

    def forward(self, tensordict: Any) -> Any:
        """Write state (*batch, N * K) and belief (*batch, H) into the tensordict (*batch)."""
        state, belief, action, embedding, starts = (tensordict.get(key) for key in self.in_keys)
        if starts.ndim < state.ndim:
            starts = starts.unsqueeze(-1)
        starts = starts.bool()
        state, belief, action = (each.masked_fill(starts, 0) for each in (state, belief, action))
        belief = self.prior.next_belief(state, belief, action)
        _, state = self.posterior(belief, embedding)
        for key, value in zip(self.out_keys, (state, belief), strict=True):
            tensordict.set(key, value.float())
        return tensordict
