"""Answers of a language model as the steps of an environment in which each action is a token."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.llm.kl_controllers import ConstantKLController, KLControllerBase

__all__ = ["RolloutFromModel"]


class RolloutFromModel:
    """Continue prompts, and give the tokens rewards: a reward model's, less what the model strays from a reference.

    Args:
        model: a causal model of transformers, which is trained.
        ref_model: the same before training.
        reward_model: gives a score to a sequence: a module whose output is (rewards, end_scores), or one on tensordicts
            that writes "end_scores".
        kl_coef: how much a token's log-ratio to the reference counts.
        max_new_tokens: of an answer.
        score_clip: scores are clamped to -score_clip and score_clip.
        kl_scheduler: changes `kl_coef`; see `step_scheduler`.
        num_steps: how many rollouts are made between two calls of it; kept for users.
    """

    EOS_TOKEN_ID: ClassVar[int] = 50256  # GPT-2's

    def __init__(
        self, model: Any, ref_model: Any, reward_model: Any, kl_coef: float = 0.1, max_new_tokens: int = 50,
        score_clip: float = 10.0, kl_scheduler: KLControllerBase | None = None, num_steps: int | None = None,
    ) -> None:  # fmt: skip
        self.model, self.ref_model, self.reward_model = model, ref_model, reward_model
        self.kl_coef, self.max_new_tokens, self.score_clip = kl_coef, max_new_tokens, score_clip
        self.num_steps = num_steps
        self._kl_values: list[float] = []
        self.kl_scheduler = kl_scheduler or ConstantKLController(model=self, kl_coef=kl_coef)
        if self.kl_scheduler.model is None:
            self.kl_scheduler.model = self

    @torch.no_grad()
    def rollout_from_data(self, batch: Any) -> TensorDict:
        """Continue the prompts of a batch.

        Args:
            batch: a `PromptData`.

        Returns:
            See `create_rollout_td`.
        """
        generated, log_probs, log_ratio = self.generate(batch)
        return self.create_rollout_td(batch, generated, log_probs, log_ratio)

    @torch.no_grad()
    def generate(self, batch: Any, generation_config: Any = None) -> tuple[Tensor, Tensor, Tensor]:
        """Continue prompts.

        Args:
            batch: "input_ids", (batch, block), and "prompt_rindex", (batch,): the place of the prompt's last token.
            generation_config: of transformers; by default one that draws from the whole distribution.

        Returns:
            Tokens (batch, block + max_new_tokens), with padding behind the answers; their log-probabilities and
            log-ratios to the reference, (batch, max_new_tokens) each.
        """
        from transformers import GenerationConfig

        padding = self._padding()
        prompts = self._prompts(batch, padding)
        config = generation_config or GenerationConfig(  # type: ignore[no-untyped-call]
            pad_token_id=padding, eos_token_id=self._end(), max_new_tokens=self.max_new_tokens, do_sample=True, top_k=0
        )
        length = prompts[0].shape[-1]
        drawn = self.model.generate(input_ids=prompts[0], attention_mask=prompts[1], generation_config=config)[
            :, length:
        ]
        drawn = F.pad(drawn, (0, self.max_new_tokens - drawn.shape[-1]), value=padding)
        answers = torch.cat([prompts[0], drawn], -1)
        seen = torch.cat([prompts[1], torch.ones_like(drawn)], -1)
        scores = [self._scores(model, answers, seen, length) for model in (self.model, self.ref_model)]
        return self._beside(batch, drawn, padding), scores[0], scores[0] - scores[1]

    def _padding(self) -> int:
        found = getattr(self.model.config, "pad_token_id", None)
        return self.EOS_TOKEN_ID if found is None else int(found)

    def _end(self) -> int:
        found = getattr(self.model.config, "eos_token_id", None)
        return self.EOS_TOKEN_ID if found is None else int(found)

    def _prompts(self, batch: Any, padding: int) -> tuple[Tensor, Tensor]:
        """Prompts with padding on the left, and what is none."""
        lengths = batch.prompt_rindex + 1
        longest = int(lengths.max())
        rows = [F.pad(row[:size], (longest - size, 0), value=padding)
                for row, size in zip(batch.input_ids, lengths.tolist(), strict=True)]  # fmt: skip
        place = torch.arange(longest, device=lengths.device)
        return torch.stack(rows), (place[None] >= longest - lengths[:, None]).long()

    def _beside(self, batch: Any, drawn: Tensor, padding: int) -> Tensor:
        """Prompts on the left, each with its answer right behind it."""
        block = batch.input_ids.shape[-1]
        made = drawn.new_full((len(drawn), block + self.max_new_tokens), padding)
        for row, ids, size, answer in zip(
            made, batch.input_ids, (batch.prompt_rindex + 1).tolist(), drawn, strict=True
        ):
            row[:size] = ids[:size]
            row[size : size + self.max_new_tokens] = answer
        return made

    def _scores(self, model: Any, tokens: Tensor, seen: Tensor, length: int) -> Tensor:
        places = (seen.cumsum(-1) - 1).clamp_min(0)
        logits = model(input_ids=tokens, attention_mask=seen, position_ids=places).logits
        return self.logprobs_of_labels(logits[:, length - 1 : -1], tokens[:, length:])

    @staticmethod
    def logprobs_of_labels(logits: Tensor, labels: Tensor) -> Tensor:
        """The log-probabilities of tokens.

        Args:
            logits: (..., tokens, vocabulary).
            labels: (..., tokens), int64.

        Returns:
            (..., tokens).
        """
        return logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)

    @torch.no_grad()
    def create_rollout_td(self, batch: Any, generated: Tensor, log_probs: Tensor, log_ratio: Tensor) -> TensorDict:
        """Answers as steps, of which each adds a token.

        Args:
            batch: of the prompts.
            generated: see `generate`.
            log_probs: likewise.
            log_ratio: likewise.

        Returns:
            (batch, max_new_tokens): "action", the token; "sample_log_prob"; "input_ids" and "attention_mask", the
            sequence before it, and below "next" after it; "done", "reward", "reward_raw" (the score's
            gain with this token) and "reward_kl" below "next".
        """
        steps = self.max_new_tokens
        first = batch.prompt_rindex + 1
        places = first[:, None] + torch.arange(steps + 1, device=generated.device)
        seen = torch.arange(generated.shape[-1], device=generated.device) < places[..., None]
        padding = self._padding()
        tokens = torch.where(seen, generated[:, None], padding)
        action = generated.gather(-1, places[:, :-1])
        done = self._done(action)
        scores = torch.stack([self._score(tokens[:, at], seen[:, at]) for at in range(steps + 1)], 1)
        gained = scores.clamp(-self.score_clip, self.score_clip).diff(dim=1).unsqueeze(-1)
        strayed = -self.kl_coef * log_ratio.unsqueeze(-1)
        self._kl_values.append(float(log_ratio.sum(-1).mean()))
        following = TensorDict(
            {
                "input_ids": tokens[:, 1:], "attention_mask": seen[:, 1:], "done": done,
                "reward": gained + strayed, "reward_raw": gained, "reward_kl": strayed,
            }, [len(generated), steps],
        )  # fmt: skip
        return TensorDict(
            {
                "action": action, "input_ids": tokens[:, :-1], "attention_mask": seen[:, :-1],
                "sample_log_prob": log_probs.unsqueeze(-1), "next": following,
            }, [len(generated), steps],
        )  # fmt: skip

    def _done(self, action: Tensor) -> Tensor:
        ended = (action == self._end()).cumsum(-1) > 0
        ended[:, -1] = True
        return ended.unsqueeze(-1)

    def _score(self, tokens: Tensor, seen: Tensor) -> Tensor:
        """What the reward model thinks of sequences, (batch,)."""
        if hasattr(self.reward_model, "in_keys"):
            given = TensorDict({"input_ids": tokens, "attention_mask": seen.long()}, [len(tokens)])
            return self.reward_model(given)["end_scores"].reshape(-1)  # type: ignore[no-any-return]
        return self.reward_model(input_ids=tokens, attention_mask=seen.long())[1].reshape(-1)  # type: ignore[no-any-return]

    def step_scheduler(self) -> None:
        """Let the scheduler choose `kl_coef` by the divergences of the rollouts since the last call."""
        self.kl_scheduler.update(self._kl_values)
        self._kl_values = []
