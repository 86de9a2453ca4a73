"""What policies that see, read and act have in common."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, Independent

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.data.tensordict.nn import InteractionType, TensorDictModuleBase, interaction_type
from flambeau.rl.data.vla.containers import VLAAction
from flambeau.rl.data.vla.tokenizers import ActionTokenizerBase

__all__ = ["VLAWrapperBase"]

_MODES = {"sample": InteractionType.RANDOM, "greedy": InteractionType.DETERMINISTIC}


class VLAWrapperBase(TensorDictModuleBase):  # type: ignore[misc]
    """A policy from images, states and instructions to chunks of actions, or to tokens of them.

    A subclass defines `_predict(tensordict)`: actions (B, H * size), or scores (B, H * size * vocab_size) with
    `action_head="tokens"`. What it gives is written as a `VLAAction` at "vla_action".

    Args:
        model: the network, for subclasses that wrap one.
        processor: makes of observations what the network reads, for such subclasses.
        input_mode: "canonical" reads images, states and instructions by their keys; "preprocessed" a `VLAObservation`,
            or a tensordict like it, at `observation_key`.
        output_mode: write "chunk", "tokens" or "both"; default: what the head gives. The other needs a tokenizer.
        return_vla_action_container: write a `VLAAction`; otherwise a plain tensordict.
        action_dim: size of actions.
        chunk_size: number of actions H.
        action_head: what the network gives: "continuous", actions, or "tokens", scores of tokens.
        vocab_size: number of tokens, for scores.
        action_tokenizer: from actions to tokens and back.
        action_kwargs: for the network, for subclasses that wrap one.
        return_log_probs: write the logarithm of the tokens' probability; default: for scores.
        return_logits: write scores.
        logits_only: write nothing else.
        use_state: read states.
        default_interaction_type: how tokens are chosen where `set_interaction_type` says nothing: RANDOM draws them,
            others take the likeliest.
        log_probs_mode: "sequence", one number (B), or "token", (B, H, size).
        mode: "sample" or "greedy", an old name of that.
        image_key: of images (B, channels, height, width).
        wrist_image_key: of images of the wrist's camera.
        state_key: of states (B, size).
        instruction_key: of texts.
        observation_key: see `input_mode`.
        action_key: of single actions.
        vla_action_key: where to write.
        action_chunk_key: where to write chunks; default: "chunk" below `vla_action_key`, and so on.
        action_tokens_key: where to write tokens.
        action_logits_key: where to write scores.
        action_mask_key: of a mask of tokens that may be chosen, (B, H, size, vocab_size), bool, read where it is there.
        log_probs_key: where to write logarithms of probabilities.
        inplace: write into the tensordict that is read; False and "empty" write into a new one.
        device: of the parameters.
        num_samples: draw so many, (B, num_samples, H, size).

    Raises:
        ValueError: a choice is none of these, or there is no `vocab_size` for scores.
    """

    @dataclass
    class _AcceptedKeys:
        image: Any = ("observation", "image")
        wrist_image: Any = ("observation", "wrist_image")
        state: Any = ("observation", "state")
        instruction: Any = "language_instruction"
        observation: Any = "vla_observation"
        action: Any = "action"
        vla_action: Any = "vla_action"
        action_chunk: Any = ("vla_action", "chunk")
        action_tokens: Any = ("vla_action", "tokens")
        action_logits: Any = ("vla_action", "logits")
        action_mask: Any = ("vla_action", "mask")
        log_probs: Any = ("vla_action", "log_probs")

    def __init__(
        self, model: Any = None, *, processor: Any = None,
        input_mode: Literal["canonical", "preprocessed"] = "canonical",
        output_mode: Literal["chunk", "tokens", "both"] | None = None, return_vla_action_container: bool = True,
        action_dim: int, chunk_size: int, action_head: Literal["continuous", "tokens"] = "continuous",
        vocab_size: int | None = None, action_tokenizer: ActionTokenizerBase | None = None,
        action_kwargs: dict[str, Any] | None = None, return_log_probs: bool | None = None, return_logits: bool = False,
        logits_only: bool = False, use_state: bool = True,
        default_interaction_type: InteractionType = InteractionType.DETERMINISTIC,
        log_probs_mode: Literal["sequence", "token"] = "sequence", mode: Literal["sample", "greedy"] | None = None,
        image_key: Any = ("observation", "image"), wrist_image_key: Any = ("observation", "wrist_image"),
        state_key: Any = ("observation", "state"), instruction_key: Any = "language_instruction",
        observation_key: Any = "vla_observation", action_key: Any = "action", vla_action_key: Any = "vla_action",
        action_chunk_key: Any = None, action_tokens_key: Any = None, action_logits_key: Any = None,
        action_mask_key: Any = None, log_probs_key: Any = None, inplace: Any = True, device: Any = None,
        num_samples: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check("action_head", action_head, ("continuous", "tokens"))
        _check("input_mode", input_mode, ("canonical", "preprocessed"))
        _check("output_mode", output_mode, (None, "chunk", "tokens", "both"))
        _check("log_probs_mode", log_probs_mode, ("sequence", "token"))
        _check("mode", mode, (None, "greedy", "sample"))
        if action_head == "tokens" and vocab_size is None:
            raise ValueError(f"{type(self).__name__}: action_head='tokens' needs vocab_size, the number of tokens.")
        self.model, self.processor, self.action_kwargs = model, processor, dict(action_kwargs or {})
        self.action_dim, self.chunk_size = action_dim, chunk_size
        self.action_head, self.vocab_size, self.action_tokenizer = action_head, vocab_size, action_tokenizer
        self.input_mode = input_mode
        self.output_mode = output_mode or ("chunk" if action_head == "continuous" else "tokens")
        self.return_vla_action_container = return_vla_action_container
        self.return_log_probs = action_head == "tokens" if return_log_probs is None else return_log_probs
        self.return_logits, self.logits_only = return_logits, logits_only
        self.use_state = use_state
        self.default_interaction_type = default_interaction_type if mode is None else _MODES[mode]
        self.log_probs_mode = log_probs_mode
        self.inplace, self.device, self.num_samples = inplace, device, num_samples
        below = _below(vla_action_key)
        self._tensor_keys = self._AcceptedKeys(
            image_key, wrist_image_key, state_key, instruction_key, observation_key, action_key, vla_action_key,
            action_chunk_key or below("chunk"), action_tokens_key or below("tokens"),
            action_logits_key or below("logits"), action_mask_key or below("mask"), log_probs_key or below("log_probs"),
        )  # fmt: skip
        self._update_keys()

    # Keys

    @property
    def tensor_keys(self) -> Any:
        """Where what is read and written lies."""
        return self._tensor_keys

    def set_keys(self, **kwargs: Any) -> Self:
        """Say where what is read and written lies.

        Args:
            kwargs: keys by the names of `tensor_keys`.

        Raises:
            ValueError: there is no such name.
        """
        known = asdict(self._tensor_keys)
        for name in kwargs:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no key {name!r}; it has {sorted(known)}.")
        if "vla_action" in kwargs:
            below, before = _below(kwargs["vla_action"]), _below(self._tensor_keys.vla_action)
            fields = {"action_chunk": "chunk", "action_tokens": "tokens", "action_logits": "logits",
                      "action_mask": "mask", "log_probs": "log_probs"}  # fmt: skip
            moved = {name: below(field) for name, field in fields.items() if known[name] == before(field)}
            kwargs = {**moved, **kwargs}
        self._tensor_keys = replace(self._tensor_keys, **kwargs)
        self._update_keys()
        return self

    def _update_keys(self) -> None:
        keys = self._tensor_keys
        if self.input_mode == "preprocessed":
            self.in_keys = [keys.observation]
        else:
            self.in_keys = [keys.image, *([keys.state] if self.use_state else []), keys.instruction]
        if self.logits_only:
            self.out_keys = [keys.action_logits]
            return
        out = [keys.action_chunk] if self.output_mode in ("chunk", "both") else []
        out += [keys.action_tokens] if self.output_mode in ("tokens", "both") else []
        if self.action_head == "tokens":
            out += [keys.log_probs] if self.return_log_probs else []
            out += [keys.action_logits] if self.return_logits else []
        self.out_keys = out

    # What is read

    def _read(self, tensordict: TensorDictBase, name: str, field: Any) -> Any:
        if self.input_mode == "preprocessed":
            key: Any = self._tensor_keys.observation
            observed = tensordict.get(key, None)
            if observed is None:
                raise KeyError(f"{type(self).__name__} reads a VLAObservation at {key!r}, which is not there.")
            for part in (field,) if isinstance(field, str) else field:
                observed = None if observed is None else observed.get(part, None)
            value = observed
        else:
            key = getattr(self._tensor_keys, name)
            value = tensordict.get(key, None)
        if value is None:
            raise KeyError(
                f"{type(self).__name__} reads {name} at {key!r}; there is {list(tensordict.keys(True, True))}."
            )
        return value

    def _get_image(self, tensordict: TensorDictBase) -> Tensor:
        image: Tensor = self._read(tensordict, "image", ("images", "image"))
        return image

    def _get_state(self, tensordict: TensorDictBase) -> Tensor:
        state: Tensor = self._read(tensordict, "state", "state")
        return state

    def _get_instruction(self, tensordict: TensorDictBase) -> list[str]:
        """One text for each element of the batch."""
        value = self._read(tensordict, "instruction", "instruction")
        value = value.tolist() if hasattr(value, "tolist") else getattr(value, "data", value)
        count = tensordict.batch_size.numel()
        return _texts(value) if not isinstance(value, str) else [value] * count

    # What is written

    def _predict(self, tensordict: TensorDictBase) -> Tensor:
        """Actions (B, H * size), or scores (B, H * size * vocab_size)."""
        raise NotImplementedError(f"{type(self).__name__} defines no `_predict`.")

    def _action_logits(self, tensordict: TensorDictBase) -> Tensor:
        found = self._predict(tensordict)
        assert self.vocab_size is not None
        return found.reshape(-1, self.chunk_size, self.action_dim, self.vocab_size)

    def forward(
        self, tensordict: TensorDictBase, *, tensordict_out: TensorDictBase | None = None, logits_only: bool = False,
        **kwargs: Any,
    ) -> TensorDictBase:  # fmt: skip
        """Act.

        Args:
            tensordict: what is observed; batch size (B,).
            tensordict_out: where to write; default: as `inplace` says.
            logits_only: write scores alone.
            kwargs: none are used.
        """
        if self.action_head == "continuous":
            chunk = self._predict(tensordict).reshape(-1, self.chunk_size, self.action_dim)
            found = {"chunk": chunk} if self.output_mode in ("chunk", "both") else {}
            if self.output_mode in ("tokens", "both"):
                found["tokens"] = self._tokenizer().encode(chunk)
        else:
            found = self._chosen(tensordict, logits_only or self.logits_only)
        target = self._target(tensordict, tensordict_out)
        self._write(target, found)
        return target

    def _chosen(self, tensordict: TensorDictBase, logits_only: bool) -> dict[str, Tensor]:
        logits = self._action_logits(tensordict)
        if logits_only:
            return {"logits": logits}
        dist = self._dist_from_logits(logits, tensordict.get(self._tensor_keys.action_mask, None))
        tokens = self._sample_tokens(dist)
        found = {}
        if self.output_mode in ("chunk", "both"):
            found["chunk"] = self._tokenizer().decode(tokens)
        if self.output_mode in ("tokens", "both"):
            found["tokens"] = tokens
        if self.return_log_probs:
            found["log_probs"] = self._log_prob_tokens(dist, tokens)
        if self.return_logits:
            found["logits"] = logits
        return found

    def _tokenizer(self) -> ActionTokenizerBase:
        if self.action_tokenizer is None:
            raise RuntimeError(
                f"{type(self).__name__}: action_head={self.action_head!r} with output_mode={self.output_mode!r} needs "
                "an action_tokenizer."
            )
        return self.action_tokenizer

    def _target(self, tensordict: TensorDictBase, given: TensorDictBase | None) -> TensorDictBase:
        if given is not None:
            return given
        if self.inplace in (False, "empty"):
            return TensorDict({}, tensordict.batch_size, device=tensordict.device)
        return tensordict

    def _write(self, target: TensorDictBase, found: dict[str, Tensor]) -> None:
        keys = self._tensor_keys
        names = {"chunk": keys.action_chunk, "tokens": keys.action_tokens, "logits": keys.action_logits,
                 "log_probs": keys.log_probs}  # fmt: skip
        below = _below(keys.vla_action)
        inside = {field: value for field, value in found.items() if names[field] == below(field)}
        if inside or self.return_vla_action_container:
            device = next(iter(found.values())).device
            if self.return_vla_action_container:
                action: Any = VLAAction(**inside, batch_size=target.batch_size, device=device)
            else:
                action = TensorDict(inside, target.batch_size)
            target.set(keys.vla_action, action)
        for field, value in found.items():
            if field not in inside:
                target.set(names[field], value)

    # Tokens

    def _dist_from_logits(self, logits: Tensor, mask: Tensor | None = None) -> Any:
        if mask is not None:
            logits = logits.masked_fill(~mask, torch.finfo(logits.dtype).min)
        return Independent(Categorical(logits=logits), 2)

    def _sample_tokens(self, dist: Any) -> Tensor:
        kind = interaction_type()
        kind = self.default_interaction_type if kind is None else kind
        if kind is InteractionType.RANDOM:
            if self.num_samples is None:
                drawn: Tensor = dist.sample()
                return drawn
            return dist.sample(torch.Size([self.num_samples])).movedim(0, 1)  # type: ignore[no-any-return]
        likeliest: Tensor = dist.base_dist.logits.argmax(-1)
        if self.num_samples is None:
            return likeliest
        return likeliest.unsqueeze(1).expand(-1, self.num_samples, *likeliest.shape[1:])

    def _log_prob_tokens(self, dist: Any, tokens: Tensor) -> Tensor:
        several = tokens.ndim > dist.base_dist.logits.ndim - 1
        lined_up = tokens.movedim(1, 0) if several else tokens
        found: Tensor = dist.base_dist.log_prob(lined_up)
        found = found.movedim(0, 1) if several else found
        return found.sum((-2, -1)) if self.log_probs_mode == "sequence" else found

    def get_dist(
        self, tensordict: TensorDictBase, *, tensordict_out: TensorDictBase | None = None, logits_key: Any = None,
        mask_key: Any = None, **kwargs: Any,
    ) -> Distribution:  # fmt: skip
        """The distribution of tokens, of event shape (H, size).

        Args:
            tensordict: what is observed.
            tensordict_out: where to write scores, if anywhere.
            logits_key: where in it; default: as `tensor_keys` says.
            mask_key: of a mask of tokens; default: as `tensor_keys` says.
            kwargs: none are used.

        Raises:
            RuntimeError: there are no tokens.
        """
        self._needs_tokens("get_dist")
        logits = self._action_logits(tensordict)
        if tensordict_out is not None:
            tensordict_out.set(logits_key or self._tensor_keys.action_logits, logits)
        return self._dist_from_logits(logits, tensordict.get(mask_key or self._tensor_keys.action_mask, None))  # type: ignore[no-any-return]

    def log_prob(
        self, tensordict: TensorDictBase, *, action_key: Any = None, log_probs_key: Any = None, **kwargs: Any
    ) -> TensorDictBase:
        """Write the logarithms of the probabilities of tokens that are there.

        Args:
            tensordict: what was observed, and the tokens.
            action_key: of the tokens; default: as `tensor_keys` says.
            log_probs_key: where to write; default: as `tensor_keys` says.
            kwargs: none are used.

        Raises:
            RuntimeError: there are no tokens.
        """
        self._needs_tokens("log_prob")
        tokens = tensordict.get(action_key or self._tensor_keys.action_tokens)
        dist = self._dist_from_logits(
            self._action_logits(tensordict), tensordict.get(self._tensor_keys.action_mask, None)
        )
        return tensordict.set(log_probs_key or self._tensor_keys.log_probs, self._log_prob_tokens(dist, tokens))

    def _needs_tokens(self, method: str) -> None:
        if self.action_head != "tokens":
            raise RuntimeError(
                f"{type(self).__name__}.{method} is of policies that choose tokens; this one has "
                f"action_head={self.action_head!r}."
            )

    def get_new_version(self, **kwargs: Any) -> Self:
        """The same policy, with the same parameters, that differs in some arguments.

        Args:
            kwargs: of what `__init__` takes: how it writes and chooses.

        Raises:
            ValueError: there is no such argument.
        """
        twin = copy.copy(self)
        for name, value in kwargs.items():
            if name not in self.__dict__ or name.startswith("_"):
                raise ValueError(f"{type(self).__name__}.get_new_version: there is no argument {name!r} to change.")
            setattr(twin, name, value)
        twin._update_keys()
        return twin


def _check(name: str, value: Any, known: tuple[Any, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}, expected one of {known}.")


def _below(root: Any) -> Any:
    def key(field: str) -> tuple[str, ...]:
        return (*((root,) if isinstance(root, str) else root), field)

    return key


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for one in value for text in _texts(one)]
