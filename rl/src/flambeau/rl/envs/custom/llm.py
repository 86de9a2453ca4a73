"""Chains of tokens, each known by its hash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from flambeau.rl.data.map.hash import SipHash
from flambeau.rl.data.tensor_specs import Categorical, Composite, NonTensor, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.common import EnvBase

__all__ = ["LLMHashingEnv"]


class LLMHashingEnv(EnvBase):
    """Adds tokens to a chain, and tells the chain's hash, by which trees of chains can be kept.

    An episode never ends, and has no reward. It is begun with a chain, at `observation_key`.

    ===================  ==========  ====================================================================
    key                  shape       what
    ===================  ==========  ====================================================================
    observation          (*B, T)     the chain, int64
    hashing              (*B, 1)     its hash, int64
    text                 -           the chain as a text; with `text_output`
    action               (*B, 1)     the next token
    ===================  ==========  ====================================================================

    Args:
        vocab_size: how many tokens there are; default: as many as the tokenizer has.
        hashing_module: from chains (rows, T) to hashes (rows,); default: `SipHash`.
        observation_key: of chains.
        text_output: write texts.
        tokenizer: makes them; has `decode`, `batch_decode` and `vocab_size`.
        text_key: of texts.

    Raises:
        ValueError: neither `vocab_size` nor a tokenizer; or texts without a tokenizer.

    Example:
        >>> env = LLMHashingEnv(vocab_size=10, text_output=False)
        >>> chain = env.reset(TensorDict({"observation": torch.tensor([1, 2])}))
        >>> env.step(chain.set("action", torch.tensor([3])))["next", "observation"]
        tensor([1, 2, 3])
    """

    _batch_locked = False

    def __init__(
        self,
        vocab_size: int | None = None,
        *,
        hashing_module: Callable[[Tensor], Tensor] | None = None,
        observation_key: NestedKey = "observation",
        text_output: bool = True,
        tokenizer: Any = None,
        text_key: NestedKey | None = "text",
    ) -> None:
        if vocab_size is None and tokenizer is None:
            raise ValueError("LLMHashingEnv needs the size of the vocabulary: give vocab_size or tokenizer.")
        if text_output and tokenizer is None:
            raise ValueError("Texts are made by a tokenizer: give one, or text_output=False.")
        super().__init__(batch_size=Size([]))
        self.vocab_size = int(tokenizer.vocab_size if vocab_size is None else vocab_size)
        self.hashing_module = SipHash() if hashing_module is None else hashing_module
        self.observation_key = observation_key
        self.text_key = text_key if text_output else None
        self.tokenizer = tokenizer
        seen: dict[Any, Any] = {
            observation_key: Categorical(self.vocab_size, (-1,)),
            "hashing": Unbounded((1,), dtype=torch.int64),
        }
        if self.text_key is not None:
            seen[self.text_key] = NonTensor(shape=())
        self.full_observation_spec = Composite(seen)
        self.action_spec = Categorical(self.vocab_size, (1,))
        self.full_reward_spec = Composite()
        end = Categorical(2, (1,), dtype=torch.bool)
        self.full_done_spec = Composite(done=end, terminated=end.clone())

    def make_tensordict(self, input: str | list[str]) -> TensorDictBase:
        """The beginning of an episode, from texts.

        Args:
            input: a text, or as many as the batch has.

        Returns:
            A tensordict with their tokens, as `reset` takes it.
        """
        if self.tokenizer is None:
            raise ValueError("Texts are made tokens by a tokenizer; LLMHashingEnv was given none.")
        texts = [input] if isinstance(input, str) else input
        options = {"padding": len(texts) > 1, "return_tensors": "pt"}
        tokens = self.tokenizer(texts, **options)["input_ids"]
        made = TensorDict({self.observation_key: tokens}, [len(texts)], device=self.device)
        return made[0] if isinstance(input, str) else made

    def _set_seed(self, seed: int | None) -> None:
        """Nothing is random."""

    def _chain(self, tokens: Tensor, size: Size) -> TensorDictBase:
        found = TensorDict({self.observation_key: tokens}, size, device=self.device)
        hashes = self.hashing_module(tokens.reshape(-1, tokens.shape[-1]))
        end = torch.zeros(*size, 1, dtype=torch.bool, device=self.device)
        found.update({"hashing": hashes.reshape(*size, 1), "done": end, "terminated": end.clone()})
        if self.text_key is not None:
            if size:
                texts = self.tokenizer.batch_decode(tokens.reshape(-1, tokens.shape[-1]))
                found.set(self.text_key, NonTensorStack.from_list(texts).reshape(size))
            else:
                found.set(self.text_key, NonTensorData(self.tokenizer.decode(tokens), []))
        return found

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        tokens = None if tensordict is None else tensordict.get(self.observation_key, None)
        if tensordict is None or tokens is None:
            raise ValueError(
                f"An episode is begun with a chain of tokens at {self.observation_key!r}, as make_tensordict gives it."
            )
        return self._chain(tokens, tensordict.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        tokens, action = tensordict.get(self.observation_key), tensordict.get("action")
        return self._chain(torch.cat([tokens, action], -1), tensordict.batch_size)
