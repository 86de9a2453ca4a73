"""Supervised fine-tuning of language models on conversations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from flambeau.data.tensordict import TensorClass, TensorDictBase
from flambeau.rl.objectives.common import LossModule
from flambeau.rl.objectives.llm._token_rows import (
    ASSISTANT,
    assistant_rows,
    check_alike,
    mask_rows,
    reduced,
    rows_of,
    scored_rows,
    summed,
    template_options,
)
from flambeau.rl.objectives.llm.distillation import k3_kl_token_estimate

__all__ = ["SFTLoss", "SFTLossOutput", "minor_sft_loss", "sft_loss"]

_REDUCTIONS = ("mean", "sum", "none")


def _check_reduction(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}, expected one of {_REDUCTIONS}.")


def sft_loss(summed_log_probs: Tensor, reduction: str) -> Tensor:
    """How unlikely answers are: their negative log-probability.

    Args:
        summed_log_probs: of each answer, (answers,).
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: an unknown reduction.

    Example:
        >>> sft_loss(torch.tensor([-1.0, -3.0]), "mean")
        tensor(2.)
    """
    _check_reduction(reduction)
    return reduced(-summed_log_probs, reduction)


def minor_sft_loss(log_probs: Tensor, ref_log_probs: Tensor, beta: float, reduction: str) -> Tensor:
    """How little answers are likelier than by a reference: -log sigmoid(beta (log_probs - ref_log_probs)).

    What has become likelier already counts less (Xie et al., 2024, arXiv:2408.10642, equation 8).

    Args:
        log_probs: of each answer, (answers,).
        ref_log_probs: by the reference, of the same shape.
        beta: how sharply.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: an unknown reduction.

    Example:
        >>> minor_sft_loss(torch.tensor([-1.0]), torch.tensor([-1.0]), beta=0.1, reduction="sum")
        tensor(0.6931)
    """
    _check_reduction(reduction)
    return reduced(-F.logsigmoid(beta * (log_probs - ref_log_probs)), reduction)


class SFTLossOutput(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """What `SFTLoss` returns.

    Attributes:
        loss_sft: how unlikely the assistant's words are.
        loss_kl_to_ref: `kl_to_ref` by its coefficient, or None.
        kl_to_ref: the divergence from the reference, or None.
    """

    loss_sft: Tensor
    loss_kl_to_ref: Tensor | None = None
    kl_to_ref: Tensor | None = None


class SFTLoss(LossModule):
    """Fine-tune a model on what assistants said in conversations.

    Args:
        actor_network: scores conversations: a `TransformersWrapper` with `generate=False`.
        tokenizer: tells the assistant's tokens where the data have no ("masks", "all_assistant_mask"); by default the
            network's.
        tokenizer_kwargs: of `History.apply_chat_template`, such as `chat_template_name`.
        reduction: "mean", "sum" or "none" over conversations.
        normalize_by_seq_length: take the mean over the assistant's tokens, not their sum.
        kl_to_ref_coeff: how much the divergence from a reference model counts, by log-probabilities in the batch.
        loss_function: "sft", or "minor_sft", which needs the reference.
        beta: of "minor_sft".
        device: kept from upstream; all is computed where the network's log-probabilities are.

    Keys: `history` ("history", "full"); `ref_log_prob` ("next", "ref_log_probs", "full"); `log_probs`, where the
    network writes, ("log_probs", "full").

    The divergence is the sum over the assistant's tokens, divided by the number of all tokens.

    Raises:
        ValueError: an argument has a value that it does not take; of `forward`: the reference is missing, a
            conversation has nothing that an assistant said, or tokens do not fit.
        KeyError: of `forward`: the history is missing.
    """

    @dataclass
    class _AcceptedKeys:
        history: Any = ("history", "full")
        ref_log_prob: Any = ("next", "ref_log_probs", "full")
        log_probs: Any = ("log_probs", "full")

    default_keys = _AcceptedKeys

    def __init__(
        self, actor_network: Any, tokenizer: Any = None, tokenizer_kwargs: Mapping[str, Any] | None = None,
        reduction: Literal["mean", "sum", "none"] = "mean", normalize_by_seq_length: bool = True,
        kl_to_ref_coeff: float | None = None, loss_function: Literal["sft", "minor_sft"] = "sft", beta: float = 0.1,
        device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_reduction(reduction)
        if loss_function not in ("sft", "minor_sft"):
            raise ValueError(f"loss_function is {loss_function!r}, expected 'sft' or 'minor_sft'.")
        self.actor_network = actor_network
        self.tokenizer = tokenizer if tokenizer is not None else getattr(actor_network, "tokenizer", None)
        self.tokenizer_kwargs = template_options(actor_network, tokenizer_kwargs)
        self.reduction, self.normalize_by_seq_length = reduction, normalize_by_seq_length
        self.kl_to_ref_coeff, self.loss_function, self.beta = kl_to_ref_coeff, loss_function, beta
        self._set_in_keys()
        self.out_keys = ["loss_sft", *(["loss_kl_to_ref", "kl_to_ref"] if kl_to_ref_coeff is not None else [])]

    def _set_in_keys(self) -> None:
        keys = self.tensor_keys
        wants_reference = self.kl_to_ref_coeff is not None or self.loss_function == "minor_sft"
        self.in_keys = [keys.history, *([keys.ref_log_prob] if wants_reference else [])]

    def forward(self, tensordict: TensorDictBase) -> Any:
        """The loss of a batch of conversations.

        Args:
            tensordict: (conversations,), dense or a lazy stack.

        Returns:
            An `SFTLossOutput`.
        """
        keys = self.tensor_keys
        rows = scored_rows(self.actor_network, tensordict, keys)
        read = assistant_rows(tensordict, keys.history, self.tokenizer, self.tokenizer_kwargs)
        masks = mask_rows(tensordict, ASSISTANT, lambda: read("assistant_masks"))
        check_alike(rows, masks, "masks of the assistant's tokens")
        masks = [mask.to(row.device) for mask, row in zip(masks, rows, strict=True)]
        if not all(bool(mask.any()) for mask in masks):
            raise ValueError("an assistant says nothing in some of the conversations; leave those out.")
        scores = summed(rows, masks, self.normalize_by_seq_length)
        references = self._references(tensordict, rows)
        if self.loss_function == "minor_sft":
            former = summed(references, masks, self.normalize_by_seq_length)
            loss = minor_sft_loss(scores, former, self.beta, self.reduction)
        else:
            loss = sft_loss(scores, self.reduction)
        if self.kl_to_ref_coeff is None:
            return SFTLossOutput(loss_sft=loss, batch_size=[])
        estimate = [torch.where(mask, k3_kl_token_estimate(reference, row), 0).sum()
                    for reference, row, mask in zip(references, rows, masks, strict=True)]  # fmt: skip
        divergence = torch.stack(estimate).sum() / sum(map(len, rows))
        return SFTLossOutput(loss, self.kl_to_ref_coeff * divergence, divergence.detach(), batch_size=[])

    def _references(self, tensordict: TensorDictBase, rows: list[Tensor]) -> list[Tensor]:
        """The reference's log-probabilities, where they are wanted."""
        if self.kl_to_ref_coeff is None and self.loss_function != "minor_sft":
            return []
        key = self.tensor_keys.ref_log_prob
        references = rows_of(tensordict, key)
        if references is None:
            raise ValueError(
                f"there are no log-probabilities of a reference at {key!r}, which {self.loss_function!r} with "
                f"kl_to_ref_coeff={self.kl_to_ref_coeff} needs; RetrieveLogProb writes them, set_keys renames them."
            )
        check_alike(rows, references, "log-probabilities of the reference")
        return [reference.detach().to(row) for reference, row in zip(references, rows, strict=True)]
