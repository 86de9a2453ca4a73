"""How far one model's tokens are from another's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from flambeau.data.tensordict import TensorClass, TensorDictBase
from flambeau.rl.objectives.common import LossModule
from flambeau.rl.objectives.llm._token_rows import (
    ASSISTANT,
    ATTENTION,
    assistant_rows,
    check_alike,
    mask_rows,
    reduced,
    rows_of,
    scored_rows,
    summed,
    template_options,
)

__all__ = ["DistillationLoss", "DistillationLossOutput", "k3_kl_token_estimate"]


def k3_kl_token_estimate(target_log_prob: Tensor, log_prob: Tensor) -> Tensor:
    """Estimate the Kullback-Leibler divergence of a target from the distribution that tokens were drawn from.

    `exp(d) - 1 - d` of d = target_log_prob - log_prob: never negative, and unbiased for tokens drawn by `log_prob`
    (Schulman, 2020, "Approximating KL divergence", the estimator called k3).

    Args:
        target_log_prob: of each token, of any shape.
        log_prob: of each token, by the distribution it was drawn from.

    Returns:
        The same shape.

    Example:
        >>> import torch
        >>> k3_kl_token_estimate(torch.tensor([-1.0, -2.0]), torch.tensor([-1.0, -1.0]))
        tensor([0.0000, 0.3679])
    """
    distance = target_log_prob - log_prob
    return distance.exp() - 1 - distance


class DistillationLossOutput(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """What `DistillationLoss` returns.

    Attributes:
        loss_distill: how far the student is from the teacher.
        kl_to_teacher: the same, as a mean over conversations, without gradients.
    """

    loss_distill: Tensor
    kl_to_teacher: Tensor


class DistillationLoss(LossModule):
    """Bring a student's log-probabilities of tokens to those of a teacher (Agarwal et al., 2024, arXiv:2306.13649).

    Args:
        actor_network: the student, which scores conversations: a `TransformersWrapper` with `generate=False`.
        tokenizer: tells which tokens count where the data have no masks; by default the student's.
        tokenizer_kwargs: of `History.apply_chat_template`, such as `chat_template_name`.
        kl_direction: "reverse", the divergence of the student from the teacher, for what the student said; "forward",
            the other one, for what the teacher said. For what neither said, the value is no divergence, and its
            gradient still brings the student to the teacher.
        reduction: "mean", "sum" or "none" over conversations.
        normalize_by_seq_length: take the mean over the tokens that count, not their sum.
        assistant_only: only what the assistant said counts; otherwise all tokens but padding do.
        device: kept from upstream; all is computed where the student's log-probabilities are.

    Keys: `history` ("history", "full"); `teacher_log_prob` ("next", "teacher_log_probs", "full"), as RetrieveLogProb
    writes it with `log_probs_full_key=("teacher_log_probs", "full")`; `log_probs`, where the student writes,
    ("log_probs", "full").

    Raises:
        ValueError: an argument has a value that it does not take; of `forward`: nothing counts in a conversation, or
            tokens do not fit.
        KeyError: of `forward`: the history or the teacher's log-probabilities are missing.
    """

    @dataclass
    class _AcceptedKeys:
        history: Any = ("history", "full")
        teacher_log_prob: Any = ("next", "teacher_log_probs", "full")
        log_probs: Any = ("log_probs", "full")

    default_keys = _AcceptedKeys

    def __init__(
        self, actor_network: Any, tokenizer: Any = None, tokenizer_kwargs: Mapping[str, Any] | None = None,
        kl_direction: Literal["reverse", "forward"] = "reverse", reduction: Literal["mean", "sum", "none"] = "mean",
        normalize_by_seq_length: bool = True, assistant_only: bool = True, device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, value, known in (
            ("kl_direction", kl_direction, ("reverse", "forward")), ("reduction", reduction, ("mean", "sum", "none")),
        ):  # fmt: skip
            if value not in known:
                raise ValueError(f"{name} is {value!r}, expected one of {known}.")
        self.actor_network = actor_network
        self.tokenizer = tokenizer if tokenizer is not None else getattr(actor_network, "tokenizer", None)
        self.tokenizer_kwargs = template_options(actor_network, tokenizer_kwargs)
        self.kl_direction, self.reduction = kl_direction, reduction
        self.normalize_by_seq_length, self.assistant_only = normalize_by_seq_length, assistant_only
        self._set_in_keys()
        self.out_keys = ["loss_distill", "kl_to_teacher"]

    def _set_in_keys(self) -> None:
        self.in_keys = [self.tensor_keys.history, self.tensor_keys.teacher_log_prob]

    def forward(self, tensordict: TensorDictBase) -> Any:
        """The loss of a batch of conversations.

        Args:
            tensordict: (conversations,), dense or a lazy stack.

        Returns:
            A `DistillationLossOutput`.
        """
        keys = self.tensor_keys
        teacher = rows_of(tensordict, keys.teacher_log_prob)
        if teacher is None:
            raise KeyError(
                f"there are no log-probabilities of a teacher at {keys.teacher_log_prob!r}; RetrieveLogProb writes "
                "them, set_keys(teacher_log_prob=...) says where they are."
            )
        student = scored_rows(self.actor_network, tensordict, keys)
        check_alike(student, teacher, "log-probabilities of the teacher")
        masks = self._masks(tensordict, student)
        teacher = [row.detach().to(own) for row, own in zip(teacher, student, strict=True)]
        pairs = (
            zip(teacher, student, strict=True) if self.kl_direction == "reverse" else zip(student, teacher, strict=True)
        )
        each = summed([k3_kl_token_estimate(*pair) for pair in pairs], masks, self.normalize_by_seq_length)
        return DistillationLossOutput(reduced(each, self.reduction), each.mean().detach(), batch_size=[])

    def _masks(self, tensordict: TensorDictBase, student: list[Tensor]) -> list[Tensor]:
        read = assistant_rows(tensordict, self.tensor_keys.history, self.tokenizer, self.tokenizer_kwargs)
        key, name = (ASSISTANT, "assistant_masks") if self.assistant_only else (ATTENTION, "attention_mask")
        masks = mask_rows(tensordict, key, lambda: read(name))
        check_alike(student, masks, "masks of the tokens that count")
        if not all(bool(mask.any()) for mask in masks):
            raise ValueError("no token counts in some of the conversations; leave those out.")
        return [mask.to(row.device) for mask, row in zip(masks, student, strict=True)]
