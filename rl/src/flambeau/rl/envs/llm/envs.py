"""Texts, or tokens, that a model adds to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import Bounded, Categorical, Composite, NonTensor, TensorSpec, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.custom.llm import LLMHashingEnv
from flambeau.rl.envs.llm.transforms.dataloading import DataLoadingPrimer
from flambeau.rl.envs.llm.transforms.tokenizer import Tokenizer
from flambeau.rl.envs.transforms import TransformedEnv

__all__ = ["LLMEnv", "LLMHashingEnv"]


class LLMEnv(EnvBase):
    """A text, or tokens, to which each step adds what the policy says.

    An episode is begun with a text at `str_key`, or tokens at `token_key`, and has no end of its own but, where
    `eos_token_id` is given, that token. Conversations are better kept by `ChatEnv`.

    Args:
        token_key: of tokens (*batch, T), where `from_text` is False; default: "tokens".
        str_key: of texts, where `from_text` is True; default: "text".
        attention_key: of which tokens are no padding; default: "attention_mask".
        action_key: of what the policy says; default: "text_response" or "tokens_response".
        reward_key: of rewards, with `assign_reward`.
        from_text: texts, not tokens.
        device: of all tensors.
        vocab_size: how many tokens there are; default: any number.
        assign_reward: write a reward of 0 for each token that the policy adds.
        assign_done: write ends, of False, for each token that the policy adds, beside the one of the episode.
        batch_size: (), or how many texts.
        has_attention: keep attention masks; of tokens alone.
        as_llm_data: not offered: entries are those of the tensordict.
        eos_token_id: ends an episode when it is the last that the policy adds; of tokens alone.

    Raises:
        ValueError: rewards, ends or an end of sequence for each token where texts are added.

    Example:
        >>> env = LLMEnv(batch_size=[])
        >>> state = env.reset(TensorDict({"text": "Hello"}))
        >>> env.step(state.set("text_response", ", world"))["next", "text"]
        'Hello, world'
    """

    def __init__(
        self,
        *,
        token_key: NestedKey | None = None,
        str_key: NestedKey | None = None,
        attention_key: NestedKey | None = None,
        action_key: NestedKey | None = None,
        reward_key: NestedKey = "reward",
        from_text: bool = True,
        device: Any = None,
        vocab_size: int | None = None,
        assign_reward: bool = False,
        assign_done: bool = False,
        batch_size: int | tuple[int, ...] | Size | None = None,
        has_attention: bool = True,
        as_llm_data: bool = False,
        eos_token_id: int | None = None,
    ) -> None:
        if as_llm_data:
            raise ValueError("LLMEnv gives tensordicts; leave as_llm_data=False.")
        if from_text and (assign_reward or assign_done or eos_token_id is not None):
            raise ValueError("Rewards, ends and eos_token_id are of tokens; give from_text=False.")
        size = Size(() if batch_size is None else (batch_size,) if isinstance(batch_size, int) else batch_size)
        super().__init__(device=device, batch_size=size)
        self.from_text = from_text
        self.token_key = "tokens" if token_key is None else token_key
        self.str_key = "text" if str_key is None else str_key
        self.attention_key = "attention_mask" if attention_key is None else attention_key
        self.has_attention = has_attention and not from_text
        self.assign_reward = assign_reward
        self.assign_done = assign_done
        self.vocab_size = vocab_size
        self.eos_token_id = eos_token_id
        self.__dict__["_said_key"] = (
            ("text_response" if from_text else "tokens_response") if action_key is None else action_key
        )
        self.__dict__["_rewarded_key"] = reward_key
        self._make_specs()

    def _tokens_spec(self) -> TensorSpec:
        shape = (*self.batch_size, 1)
        if self.vocab_size is None:
            spec: TensorSpec = Unbounded(shape, dtype=torch.int64, device=self.device)
        else:
            spec = Bounded(0, self.vocab_size, shape=shape, dtype=torch.int64, device=self.device)
        spec.shape = Size([*self.batch_size, -1])
        return spec

    def _make_specs(self) -> None:
        size, said = self.batch_size, self.__dict__["_said_key"]
        if self.from_text:
            text = NonTensor(size, example_data="a string", device=self.device)
            action: TensorSpec
            seen, action = Composite({self.str_key: text}, shape=size), text.clone()
        else:
            seen, action = Composite({self.token_key: self._tokens_spec()}, shape=size), self._tokens_spec()
            if self.has_attention:
                seen[self.attention_key] = self._tokens_spec()
        self.full_observation_spec = seen
        self.full_state_spec = seen.clone()
        self.full_action_spec = Composite({said: action}, shape=size)
        rewards = Composite(shape=size)
        if self.assign_reward:
            rewards[self.__dict__["_rewarded_key"]] = self._each_token(Unbounded, torch.float32)
        self.full_reward_spec = rewards
        end = Categorical(2, (*size, 1), dtype=torch.bool, device=self.device)
        ends = Composite(done=end, terminated=end.clone(), shape=size)
        if self.assign_done:
            for key in ("done", "terminated"):
                ends["tokens_data", key] = self._each_token(Unbounded, torch.bool)
        self.full_done_spec = ends

    def _each_token(self, kind: Any, dtype: torch.dtype) -> TensorSpec:
        spec: TensorSpec = kind((*self.batch_size, 1), dtype=dtype, device=self.device)
        spec.shape = Size([*self.batch_size, -1])
        return spec

    @classmethod
    def from_dataloader(
        cls,
        dataloader: Any,
        *,
        tokenizer: Any = None,
        token_key: NestedKey | None = None,
        str_key: NestedKey | None = None,
        attention_key: NestedKey | None = None,
        action_key: NestedKey | None = None,
        reward_key: NestedKey = "reward",
        from_text: bool = True,
        device: Any = None,
        vocab_size: int | None = None,
        batch_size: int | tuple[int, ...] | Size | None = None,
        has_attention: bool = True,
        assign_reward: bool = False,
        assign_done: bool = False,
        primers: Composite | None = None,
        example_data: Any = None,
        stack_method: Any = None,
        repeats: int | None = None,
        group_repeats: bool = True,
        eos_token_id: int | None = None,
    ) -> TransformedEnv:
        """An environment whose texts come from a data loader.

        Args:
            dataloader: gives dictionaries with texts at `str_key`, or tokens at `token_key`.
            tokenizer: write the tokens of texts beside them; of texts alone: with tokens, the loader gives them.
            token_key: as for the constructor.
            str_key: as for the constructor.
            attention_key: as for the constructor.
            action_key: as for the constructor.
            reward_key: as for the constructor.
            from_text: as for the constructor.
            device: as for the constructor.
            vocab_size: as for the constructor.
            batch_size: how many texts; default: the loader's.
            has_attention: as for the constructor.
            assign_reward: as for the constructor.
            assign_done: as for the constructor.
            primers: specs of what the loader gives; default: those of its first batch.
            example_data: has no effect; the first batch is read.
            stack_method: as for `DataLoadingPrimer`.
            repeats: each text comes so many times.
            group_repeats: the same texts are one batch, `repeats` times as large.
            eos_token_id: as for the constructor.
        """
        if tokenizer is not None and not from_text:
            raise ValueError("With from_text=False the loader gives tokens; make them there, or give from_text=True.")
        primer = DataLoadingPrimer(
            dataloader, primers=primers, stack_method=stack_method, repeats=repeats, device=device,
            group_repeats=group_repeats and repeats is not None, batch_size=batch_size,
        )  # fmt: skip
        env: Any = TransformedEnv(
            cls(
                token_key=token_key, str_key=str_key, attention_key=attention_key, action_key=action_key,
                reward_key=reward_key, from_text=from_text, device=device, vocab_size=vocab_size,
                assign_reward=assign_reward, assign_done=assign_done, batch_size=primer.primers.shape,
                has_attention=has_attention, eos_token_id=eos_token_id,
            )
        )  # fmt: skip
        base = env.base_env
        env.append_transform(primer)
        if tokenizer is not None:
            keys = ([base.str_key], [base.token_key])
            env.append_transform(Tokenizer(*keys, tokenizer=tokenizer))
        return env  # type: ignore[no-any-return]

    def _set_seed(self, seed: int | None) -> None:
        """Nothing is random."""

    def _ends(self, ended: Tensor) -> dict[NestedKey, Tensor]:
        return {"done": ended, "terminated": ended.clone()}

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        key = self.str_key if self.from_text else self.token_key
        given = None if tensordict is None else tensordict.get(key, None)
        if tensordict is None or given is None:
            raise RuntimeError(
                f"An episode of LLMEnv begins with what is at {key!r}; give it, or add a DataLoadingPrimer."
            )
        found = TensorDict({}, self.batch_size, device=self.device).set(key, given)
        if self.has_attention:
            mask = tensordict.get(self.attention_key, None)
            found.set(self.attention_key, torch.ones_like(given) if mask is None else mask)
        ended = torch.zeros(*self.batch_size, 1, dtype=torch.bool, device=self.device)
        for name, end in self._ends(ended).items():
            found.set(name, end)
        if self.assign_done:
            for name in ("done", "terminated"):
                found.set(("tokens_data", name), torch.zeros_like(given, dtype=torch.bool))
        return found

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        said = tensordict.get(self.__dict__["_said_key"])
        found = TensorDict({}, self.batch_size, device=self.device)
        ended = torch.zeros(*self.batch_size, 1, dtype=torch.bool, device=self.device)
        if self.from_text:
            found.set(self.str_key, _joined(tensordict.get(self.str_key), said, self.batch_size))
        else:
            found.set(self.token_key, torch.cat([tensordict.get(self.token_key), said], -1))
            if self.has_attention:
                mask = tensordict.get(self.attention_key, None)
                mask = torch.ones_like(tensordict.get(self.token_key)) if mask is None else mask
                found.set(self.attention_key, torch.cat([mask, torch.ones_like(said)], -1))
            if self.eos_token_id is not None:
                ended = said[..., -1:] == self.eos_token_id
            if self.assign_reward:
                found.set(self.__dict__["_rewarded_key"], torch.zeros_like(said, dtype=torch.float32))
            if self.assign_done:
                for name in ("done", "terminated"):
                    found.set(("tokens_data", name), torch.zeros_like(said, dtype=torch.bool))
        for key, end in self._ends(ended).items():
            found.set(key, end)
        return found


def _joined(text: Any, said: Any, size: Size) -> Any:
    """Texts with what was said behind them."""
    if not size:
        return NonTensorData(getattr(text, "data", text) + getattr(said, "data", said), [])

    def join(first: Any, second: Any) -> Any:
        if isinstance(first, str):
            return first + second
        return [join(*pair) for pair in zip(first, second, strict=True)]

    texts, more = (value.tolist() if hasattr(value, "tolist") else list(value) for value in (text, said))
    return NonTensorStack.from_list(join(texts, more))
