"""Losses by examples and by teachers, on conversations that a model of transformers scores."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import TensorDict, lazy_stack
from flambeau.rl.data.llm import History
from flambeau.rl.modules.llm import ChatHistory, TransformersWrapper
from flambeau.rl.objectives.llm import DistillationLoss, SFTLoss, k3_kl_token_estimate, minor_sft_loss

CHATS = [
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
    [{"role": "user", "content": "The capital of France?"}, {"role": "assistant", "content": "Paris"}],
]


@pytest.fixture(scope="module")
def teacher(tokenizer):
    from flambeau.rl.testing.tiny_llm import tiny_causal_lm

    return TransformersWrapper(tiny_causal_lm(tokenizer, seed=1), tokenizer=tokenizer, generate=False, inplace=False)


@pytest.fixture
def student(model, tokenizer):
    return TransformersWrapper(model, tokenizer=tokenizer, generate=False, inplace=False)


@pytest.fixture
def conversations(teacher):
    full = History.from_chats(CHATS)
    scored = teacher(TensorDict(history=ChatHistory(full=full, batch_size=2), batch_size=2))
    rows = []
    for history, score in zip(full.unbind(0), scored["log_probs"].get("full", as_list=True), strict=True):
        known = TensorDict(full=score.detach())
        rows.append(
            TensorDict(history=ChatHistory(full=history), next=TensorDict(ref_log_probs=known, teacher_log_probs=known))
        )
    return lazy_stack(rows)


def said(student, conversations):
    made = student(conversations)
    scores, masks = made["log_probs"].get("full", as_list=True), made["masks"].get("all_assistant_mask", as_list=True)
    return [score[mask] for score, mask in zip(scores, masks, strict=True)]


def references(student, conversations):
    masks = student(conversations)["masks"].get("all_assistant_mask", as_list=True)
    known = [row["next", "ref_log_probs", "full"] for row in conversations.unbind(0)]
    return [row[mask] for row, mask in zip(known, masks, strict=True)]


@pytest.mark.parametrize(("by_length", "total"), [(True, torch.mean), (False, torch.sum)])
def test_fine_tuning_takes_what_the_assistant_said(student, conversations, by_length, total):
    expected = -torch.stack([total(row) for row in said(student, conversations)]).mean()
    found = SFTLoss(student, normalize_by_seq_length=by_length)(conversations)
    torch.testing.assert_close(found.loss_sft, expected)


def test_fine_tuning_keeps_to_the_reference(student, conversations):
    scores, known = said(student, conversations), references(student, conversations)
    tokens = sum(len(row) for row in student(conversations)["tokens"].get("full", as_list=True))
    expected = sum(k3_kl_token_estimate(*pair).sum() for pair in zip(known, scores, strict=True)) / tokens
    found = SFTLoss(student, kl_to_ref_coeff=0.5)(conversations)
    torch.testing.assert_close(found.kl_to_ref, expected.detach())
    torch.testing.assert_close(found.loss_kl_to_ref, expected * 0.5)


def test_minor_fine_tuning_compares_with_the_reference(student, conversations):
    scores, known = (
        torch.stack([row.mean() for row in rows])
        for rows in (said(student, conversations), references(student, conversations))
    )
    found = SFTLoss(student, loss_function="minor_sft", beta=0.3, reduction="none")(conversations)
    torch.testing.assert_close(found.loss_sft, minor_sft_loss(scores, known, 0.3, "none"))


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_a_student_comes_nearer_to_its_teacher(student, conversations, direction):
    loss = DistillationLoss(student, kl_direction=direction)
    before = loss(conversations)
    parameters = list(student.parameters())
    saved = [parameter.detach().clone() for parameter in parameters]
    before.loss_distill.backward()
    with torch.no_grad():
        for parameter in parameters:
            parameter -= 1e-3 * parameter.grad / (parameter.grad.norm() + 1e-6)
            parameter.grad = None
    after = loss(conversations)
    with torch.no_grad():
        [parameter.copy_(value) for parameter, value in zip(parameters, saved, strict=True)]
    assert after.kl_to_teacher < before.kl_to_teacher


def test_a_teacher_is_no_distance_from_itself(teacher, conversations):
    found = DistillationLoss(teacher, assistant_only=False, reduction="none")(conversations)
    torch.testing.assert_close(found.loss_distill, torch.zeros(2), atol=1e-5, rtol=0)


def test_masks_of_the_data_count_before_those_of_the_template(student, conversations):
    made = student(conversations)
    for row, mask in zip(conversations.unbind(0), made["masks"].get("all_assistant_mask", as_list=True), strict=True):
        row["masks"] = TensorDict(all_assistant_mask=mask)
    loss = SFTLoss(student)
    loss.tokenizer = None
    torch.testing.assert_close(loss(conversations).loss_sft, SFTLoss(student)(conversations.exclude("masks")).loss_sft)


def test_what_is_missing_is_named(student, conversations):
    with pytest.raises(KeyError, match="history"):
        SFTLoss(student)(conversations.exclude("history"))
    with pytest.raises(ValueError, match="ref_log_probs"):
        SFTLoss(student, kl_to_ref_coeff=0.1)(conversations.exclude("next"))
    with pytest.raises(KeyError, match="teacher"):
        DistillationLoss(student)(conversations.exclude("next"))


def test_masks_of_another_template_are_refused(student, conversations):
    with pytest.raises(ValueError, match="chat template"):
        SFTLoss(student, tokenizer_kwargs={"chat_template_name": "chatml_format"})(conversations)


def test_a_conversation_without_an_assistant_is_refused(student):
    history = History.from_chats([[{"role": "user", "content": "Hi"}]])
    with pytest.raises(ValueError, match="assistant says nothing"):
        SFTLoss(student)(TensorDict(history=ChatHistory(full=history, batch_size=1), batch_size=1))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (SFTLoss, {"reduction": "median"}), (SFTLoss, {"loss_function": "dpo"}),
        (DistillationLoss, {"reduction": "median"}), (DistillationLoss, {"kl_direction": "both"}),
    ],
)  # fmt: skip
def test_unknown_names_are_refused(student, kind, options):
    with pytest.raises(ValueError, match="expected"):
        kind(student, **options)
