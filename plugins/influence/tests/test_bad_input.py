"""Checkpoints that do not fit, data without labels and loaders that shuffle: every method refuses them by name."""

from __future__ import annotations

import pytest
import torch
from subjects import LOSSES, Subject
from torch import nn
from torch.utils.data import TensorDataset

from flambeau.influence import (
    TRAK,
    ArnoldiInfluenceFunction,
    EKFACInfluenceFunction,
    NaiveInfluenceFunction,
    SimilarityInfluence,
    TracInCP,
    TracInCPFast,
    TracInCPFastRandProj,
)
from flambeau.influence.errors import BatchError, CheckpointMismatchError


def over_checkpoints(method, loss, *layer):
    def ask(subject, data, checkpoint):
        options = {} if method is TRAK else {"loss_fn": LOSSES[loss]()}
        made = method(subject.model, *layer, data, [checkpoint], batch_size=4, **options)
        return made.influence(subject.inputs)

    return ask


def of_one_checkpoint(method):
    def ask(subject, data, checkpoint):
        made = method(subject.model, data, checkpoint, layers=["fc2"], loss_fn=LOSSES["none"](), batch_size=4)
        return made.influence(subject.inputs)

    return ask


METHODS = {
    "TracInCP": over_checkpoints(TracInCP, "none"),
    "TracInCPFast": over_checkpoints(TracInCPFast, "sum", "fc2"),
    "TracInCPFastRandProj": over_checkpoints(TracInCPFastRandProj, "sum", "fc2"),
    "TRAK": over_checkpoints(TRAK, None),
    "NaiveInfluenceFunction": of_one_checkpoint(NaiveInfluenceFunction),
    "ArnoldiInfluenceFunction": of_one_checkpoint(ArnoldiInfluenceFunction),
    "EKFACInfluenceFunction": of_one_checkpoint(EKFACInfluenceFunction),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_that_does_not_fit_is_refused_and_the_model_left_alone(method):
    subject, other = Subject("net"), nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3))
    before = {name: value.clone() for name, value in subject.model.state_dict().items()}
    shapes = {**subject.states[0], "fc2.weight": torch.zeros(3, 8)}
    for checkpoint in (other.state_dict(), shapes):
        with pytest.raises(CheckpointMismatchError, match=r"(?s)cannot be loaded into Net: .* `checkpoints_load_func`"):
            METHODS[method](subject, subject.train, checkpoint)
    assert all(torch.equal(value, before[name]) for name, value in subject.model.state_dict().items())


@pytest.mark.parametrize("method", METHODS)
def test_data_without_labels_are_refused(method):
    subject = Subject("net")
    with pytest.raises(BatchError, match="has one element, expected inputs and labels"):
        METHODS[method](subject, TensorDataset(subject.train_x), subject.states[0])


@pytest.mark.parametrize("method", METHODS)
def test_a_loader_that_shuffles_is_refused(method):
    subject = Subject("net")
    with pytest.raises(BatchError, match=r"train_dataset is a DataLoader with a RandomSampler, .* shuffle=False"):
        METHODS[method](subject, subject.loader(shuffle=True), subject.states[0])


def test_similarity_refuses_a_loader_that_shuffles(tmp_path):
    subject = Subject("net")
    with pytest.raises(BatchError, match="influence_src_dataset is a DataLoader with a RandomSampler"):
        SimilarityInfluence(subject.model, "fc1", subject.loader(shuffle=True), str(tmp_path))
