"""One backward pass for a batch gives the gradients of its examples, or is not taken."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.influence._gradients import SampleGradients, chosen_parameters


class Twice(nn.Module):
    """A layer that runs twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(self.layer(x))


class Mixing(nn.Module):
    """Examples that see each other."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x) - self.layer(x).mean(0) * 0.5 if len(x) > 1 else self.layer(x)


class Aside(nn.Module):
    """Parameters that are used outside of their layer as well."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x) + x @ self.layer.weight.square()


MODELS = {
    "linear": (lambda: nn.Linear(4, 4), (4,)),
    "places": (lambda: nn.Sequential(nn.Linear(4, 5, bias=False), nn.Tanh(), nn.Flatten(), nn.Linear(15, 4)), (3, 4)),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, 2, 1, 1), nn.Conv2d(3, 2, 2, dilation=2), nn.Flatten(), nn.Linear(2, 4)
        ),
        (2, 5, 6),
    ),
    "norm": (lambda: nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), (4,)),
    "twice": (Twice, (4,)),
    "mixing": (Mixing, (4,)),
    "aside": (Aside, (4,)),
}
AT_ONCE = {"linear", "places", "convolution"}


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_examples_by_themselves(name, reduction):
    torch.manual_seed(0)
    build, shape = MODELS[name]
    model, loss = build(), nn.CrossEntropyLoss(reduction=reduction)
    batch = (torch.randn(6, *shape), torch.arange(6) % 4)
    gradients = SampleGradients(model, chosen_parameters(model, None), loss, "batch")
    found = gradients(batch)
    rows = []
    for x, y in zip(*batch, strict=True):
        parts = torch.autograd.grad(loss(model(x.unsqueeze(0)), y.unsqueeze(0)).sum(), list(model.parameters()))
        rows.append(torch.cat([part.flatten() for part in parts]))
    torch.testing.assert_close(found, torch.stack(rows), rtol=1e-4, atol=1e-6)
    assert gradients._at_once == (name in AT_ONCE)


def test_a_mean_with_weights_is_that_of_single_examples():
    torch.manual_seed(0)
    model, loss = nn.Linear(4, 4), nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0]), reduction="mean")
    batch = (torch.randn(6, 4), torch.arange(6) % 4)
    whole = SampleGradients(model, ["weight", "bias"], loss, "batch")(batch)
    halves = [
        SampleGradients(model, ["weight", "bias"], loss, "batch")((x, y))
        for x, y in zip(*(v.split(2) for v in batch), strict=True)
    ]
    torch.testing.assert_close(whole, torch.cat(halves))


def test_parameters_want_gradients_afterwards_as_before():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].requires_grad_(False)
    loss = nn.CrossEntropyLoss(reduction="sum")
    rows = SampleGradients(model, chosen_parameters(model, None), loss, "batch")((torch.randn(3, 4), torch.arange(3)))
    assert rows.shape == (3, 20)
    assert [parameter.requires_grad for parameter in model.parameters()] == [False, False, True, True]
