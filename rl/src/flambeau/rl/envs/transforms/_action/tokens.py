"""Actions as tokens, which language models give."""

from __future__ import annotations

from typing import Any, Literal

from flambeau.rl.data.tensor_specs import Categorical
from flambeau.rl.data.vla.tokenizers import ActionTokenizerBase
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["ActionTokenizerTransform"]


class ActionTokenizerTransform(Transform):
    """Actions as tokens in data of buffers, and tokens as actions in what an environment takes.

    Args:
        tokenizer: from actions to tokens and back.
        in_key: of actions (..., size).
        out_key: of tokens, of the same shape, int64.
        mode: "encode": data get tokens, and what goes in gets actions; "decode": the other way around, as a module
            behind a policy that gives tokens.

    Raises:
        ValueError: the mode is another one.
        TypeError: the tokenizer is none.

    Example:
        >>> import torch
        >>> from flambeau.data.tensordict import TensorDict
        >>> from flambeau.rl.data.vla import UniformActionTokenizer
        >>> tokens = ActionTokenizerTransform(UniformActionTokenizer(4, low=-1.0, high=1.0))
        >>> tokens(TensorDict({"action": torch.tensor([-1.0, 0.0, 1.0])}))["vla_action", "tokens"]
        tensor([0, 2, 3])
    """

    def __init__(
        self,
        tokenizer: ActionTokenizerBase,
        *,
        in_key: NestedKey = "action",
        out_key: NestedKey = ("vla_action", "tokens"),
        mode: Literal["encode", "decode"] = "encode",
    ) -> None:
        if mode not in ("encode", "decode"):
            raise ValueError(f"ActionTokenizerTransform: mode is {mode!r}, expected 'encode' or 'decode'.")
        if not isinstance(tokenizer, ActionTokenizerBase):
            raise TypeError(
                f"ActionTokenizerTransform takes an ActionTokenizerBase, which has `encode`, `decode` and "
                f"`vocab_size`; got {type(tokenizer).__name__}."
            )
        from_key, to_key = (in_key, out_key) if mode == "encode" else (out_key, in_key)
        # What environments give has no actions: as part of one it reads nothing there, if it encodes.
        read = mode == "decode"
        super().__init__([from_key] if read else [], [to_key] if read else [], [from_key], [to_key])
        self.tokenizer = tokenizer
        self.mode = mode
        self._from, self._to = from_key, to_key

    @property
    def in_key(self) -> NestedKey:
        """Of actions."""
        return self._from if self.mode == "encode" else self._to

    @property
    def out_key(self) -> NestedKey:
        """Of tokens."""
        return self._to if self.mode == "encode" else self._from

    def _apply_transform(self, obs: Any) -> Any:
        return self.tokenizer.encode(obs) if self.mode == "encode" else self.tokenizer.decode(obs)

    def _inv_apply_transform(self, state: Any) -> Any:
        return self.tokenizer.decode(state) if self.mode == "encode" else self.tokenizer.encode(state)

    def forward(self, tensordict: Any) -> Any:
        """Encode, or decode, the actions of data.

        Args:
            tensordict: changed in place.

        Raises:
            KeyError: it has none.
        """
        value = tensordict.get(self._from, None)
        if value is None:
            if self.missing_tolerance:
                return tensordict
            raise self._missing(self._from, tensordict)
        return tensordict.set(self._to, self._apply_transform(value))

    def _call(self, next_tensordict: Any) -> Any:
        return next_tensordict

    def _inv_call(self, tensordict: Any) -> Any:
        if self.parent is None and tensordict.get(self.out_keys_inv[0], None) is None:
            return tensordict
        return super()._inv_call(tensordict)

    def transform_input_spec(self, input_spec: Any) -> Any:
        """Tokens in the place of actions, if it encodes.

        Args:
            input_spec: a composite.
        """
        if self.mode == "decode":
            return input_spec
        actions = input_spec["full_action_spec"]
        spec = actions[self.in_key]
        del actions[self.in_key]
        actions[self.out_key] = Categorical(self.tokenizer.vocab_size, shape=spec.shape, device=spec.device)
        input_spec["full_action_spec"] = actions
        return input_spec
