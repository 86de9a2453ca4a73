"""EK-FAC: against the exact Fisher matrix where it is exact, and against retraining's direction where it is not."""

from __future__ import annotations

import pytest
import torch
from subjects import LOSSES, Subject
from torch import nn
from torch.utils.data import TensorDataset

from flambeau.influence import EKFACInfluenceFunction
from flambeau.influence._gradients import SampleGradients
from flambeau.influence.errors import InfluenceError


def exact(model, names, data, test, damping):
    """Scores by the whole empirical Fisher matrix of the parameters."""
    gradients = SampleGradients(model, names, LOSSES["none"](), "data")
    train, queries = gradients(data.tensors), gradients(test)
    fisher = train.T @ train + damping * torch.eye(train.shape[1])
    return queries @ torch.linalg.solve(fisher, train.T)


def test_with_one_output_and_one_layer_it_is_the_inverse_of_the_fisher_matrix():
    # Residuals of one size do not depend on inputs: the block is A times a number, and the basis diagonalizes it.
    generator = torch.Generator().manual_seed(0)
    model, loss = nn.Sequential(nn.Linear(3, 1)), nn.MSELoss(reduction="sum")
    x = torch.randn(40, 3, generator=generator)
    data = TensorDataset(x, model(x).detach() + torch.tensor([[0.5], [-0.5]]).repeat(20, 1))
    ekfac = EKFACInfluenceFunction(
        model, data, model.state_dict(), loss_fn=loss, batch_size=7, damping=0.5, sample_wise_grads_per_batch=True
    )
    test = (torch.randn(4, 3, generator=generator), torch.randn(4, 1, generator=generator))
    gradients = SampleGradients(model, ["0.weight", "0.bias"], loss, "data")
    train, queries = gradients(data.tensors), gradients(test)
    fisher = train.T @ train + 0.5 * torch.eye(4)
    expected = queries @ torch.linalg.solve(fisher, train.T)
    torch.testing.assert_close(ekfac.influence(test), expected, rtol=1e-3, atol=1e-4)
    own = (train * torch.linalg.solve(fisher, train.T).T).sum(1)
    torch.testing.assert_close(ekfac.self_influence(), own, rtol=1e-3, atol=1e-4)


def test_it_resembles_the_whole_matrix_more_than_gradients_alone_do():
    subject = Subject("net")
    subject.model.load_state_dict(subject.states[0])
    data, damping = TensorDataset(subject.train_x, subject.train_y), 1e-2
    names = ["fc2.weight", "fc2.bias"]
    expected = exact(subject.model, names, data, subject.inputs, damping)
    ekfac = EKFACInfluenceFunction(
        subject.model, data, subject.states[0], layers=["fc2"], loss_fn=LOSSES["none"](), batch_size=4, damping=damping
    )
    plain = SampleGradients(subject.model, names, LOSSES["none"](), "data")
    products = plain(subject.inputs) @ plain(data.tensors).T

    def likeness(scores):
        return float(torch.corrcoef(torch.stack([scores.flatten(), expected.flatten()]))[0, 1])

    assert likeness(ekfac.influence(subject.inputs)) > likeness(products)


def test_layers_are_chosen_by_patterns_and_k_finds_the_largest():
    subject = Subject("net")
    options = {"loss_fn": LOSSES["none"](), "batch_size": 4}
    ekfac = EKFACInfluenceFunction(subject.model, subject.train, subject.states[0], layers=["fc*"], **options)
    scores, found = ekfac.influence(subject.inputs), ekfac.influence(subject.inputs, k=2)
    assert ekfac.layers == ["fc1", "fc2"]
    assert torch.equal(found.indices, scores.topk(2).indices)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"layers": ["fc9*"]}, r"layers has 'fc9\*'"), ({"damping": 0.0}, r"damping is 0\.0, expected a number above 0")],
)
def test_bad_arguments_are_named(options, message):
    subject = Subject("net")
    with pytest.raises(InfluenceError, match=message):
        EKFACInfluenceFunction(subject.model, subject.train, subject.states[0], loss_fn=LOSSES["none"](), **options)
