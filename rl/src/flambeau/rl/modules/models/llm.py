"""A reward model on GPT-2."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["GPT2RewardModel"]

_GPT2_END = 50256


class GPT2RewardModel(nn.Module):
    """GPT-2 with one number for each token in the place of the vocabulary (Stiennon et al., 2020, arXiv:2009.01325).

    Args:
        model_path: of a checkpoint of GPT-2, whose transformer is taken; by default random weights in GPT-2's sizes.
        pad_token_id: the token of padding; by default as the checkpoint's tokenizer or configuration says.

    Raises:
        ImportError: transformers is not installed.
    """

    def __init__(self, model_path: str | Path | None = None, pad_token_id: int | None = None) -> None:
        super().__init__()
        try:
            from transformers import GPT2Config, GPT2LMHeadModel
        except ImportError as error:
            raise ImportError(
                "GPT2RewardModel needs transformers, which is not installed. Run: pip install flambeau-rl[llm]"
            ) from error
        if model_path is None:
            model = GPT2LMHeadModel(GPT2Config())
        else:
            model = GPT2LMHeadModel.from_pretrained(model_path)
        self.config, self.transformer = model.config, model.transformer
        self.lm_head = nn.Linear(model.config.n_embd, 1, bias=False)
        self.pad_id = self._get_pad_token_id(model, model_path, pad_token_id)

    @staticmethod
    def _get_pad_token_id(model: Any, model_path: str | Path | None, pad_token_id: int | None) -> int:
        if pad_token_id is not None:
            return pad_token_id
        if model_path is not None and (Path(model_path) / "tokenizer_config.json").exists():
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(model_path)
            known = (tokenizer.pad_token_id, tokenizer.eos_token_id)
        else:
            known = (model.config.pad_token_id, model.config.eos_token_id)
        return next((int(found) for found in known if found is not None), _GPT2_END)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Score sequences.

        Args:
            input_ids: (batch, tokens), int64, with padding behind.
            attention_mask: (batch, tokens), 0 where there is padding.

        Returns:
            Rewards after each token, (batch, tokens, 1), and those after each last token, (batch,).
        """
        hidden = self.transformer(input_ids=input_ids, attention_mask=attention_mask)[0]
        rewards = self.lm_head(hidden)
        return rewards, self._compute_end_scores(rewards, input_ids)

    def _compute_end_scores(self, rewards: Tensor, input_ids: Tensor) -> Tensor:
        last = (_lengths(input_ids, self.pad_id) - 1).clamp_min(0)
        return rewards.squeeze(-1).gather(-1, last[:, None]).squeeze(-1)

    def compute_reward_loss(
        self: Any = None, chosen_batch: Any = None, rejected_batch: Any = None, pad_token_id: int | None = None
    ) -> Tensor:
        """How little the chosen sequences are preferred: -log sigmoid(chosen - rejected).

        Of each pair the tokens count from where the sequences part to the end of the longer one; equal pairs do not
        count. May be called on the class: `GPT2RewardModel.compute_reward_loss(chosen, rejected)`.

        Args:
            chosen_batch: "input_ids" (batch, tokens) and "rewards" (batch, tokens, 1): a `RewardData`.
            rejected_batch: the same of the others.
            pad_token_id: the token of padding; by default the model's, or on the class GPT-2's end, 50256.

        Raises:
            ValueError: a batch is missing, or all pairs are equal.
        """
        if not isinstance(self, nn.Module) and self is not None:  # called on the class
            chosen_batch, rejected_batch, self = self, chosen_batch if rejected_batch is None else rejected_batch, None
        if chosen_batch is None or rejected_batch is None:
            raise ValueError("chosen_batch and rejected_batch are both needed.")
        padding = pad_token_id if pad_token_id is not None else getattr(self, "pad_id", _GPT2_END)
        losses = []
        for chosen, rejected, better, worse in zip(
            chosen_batch.input_ids, rejected_batch.input_ids, chosen_batch.rewards, rejected_batch.rewards, strict=True
        ):
            differ = (chosen != rejected).nonzero()
            if not len(differ):
                continue
            end = int(torch.maximum(*(_lengths(row[None], padding)[0] for row in (chosen, rejected))))
            span = slice(int(differ[0]), max(end, int(differ[0]) + 1))
            losses.append(-F.logsigmoid(better[span] - worse[span]).mean())
        if not losses:
            raise ValueError("the chosen and rejected sequences are all equal; there is nothing to prefer.")
        return torch.stack(losses).mean()

    @classmethod
    def from_pretrained(cls, path: str | Path) -> Self:
        """Load what `save_pretrained` wrote.

        Args:
            path: the folder.
        """
        from transformers import GPT2Config, GPT2Model

        folder = Path(path)
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made.config = GPT2Config.from_pretrained(folder)
        made.transformer = GPT2Model(made.config)
        made.lm_head = nn.Linear(made.config.n_embd, 1, bias=False)
        made.pad_id = int(made.config.reward_pad_id)
        made.load_state_dict(torch.load(folder / "reward_model.pt", weights_only=True, map_location="cpu"))
        return made

    def save_pretrained(self, path: str | Path) -> None:
        """Write configuration and weights.

        Args:
            path: a folder, made where it is not there.
        """
        from flambeau.core.files import write_atomic

        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        self.config.reward_pad_id = self.pad_id
        self.config.save_pretrained(folder)
        content = io.BytesIO()
        torch.save(self.state_dict(), content)
        write_atomic(folder / "reward_model.pt", content.getvalue())


def _lengths(input_ids: Tensor, padding: int) -> Tensor:
    """How many tokens stand before the padding behind, (batch,)."""
    known = (input_ids != padding).long().flip(-1)
    return torch.where(known.any(-1), input_ids.shape[-1] - known.argmax(-1), 0)
