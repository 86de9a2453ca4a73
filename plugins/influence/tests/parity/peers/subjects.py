"""Models, data and checkpoints that both libraries are asked about."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from flambeau.core.testing.fill import fill_, integers, tensor

RATES = (0.1, 0.05, 0.02)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(2, 3, 3, padding=1), nn.Linear(48, 5, bias=False)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).flatten(1))


class Scored(nn.Module):
    """A model that gives the loss of each example itself."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 4)

    def forward(self, x):
        return self.fc1(x).square().sum(1)


KINDS = {"net": (Net, (6,), 4, "fc2"), "conv": (Conv, (2, 4, 4), 5, "fc"), "scored": (Scored, (6,), 4, "fc1")}


class Subject:
    """One kind of model with its data and checkpoints."""

    def __init__(self, kind):
        make, shape, self.classes, self.last = KINDS[kind]
        self.kind, self.model = kind, fill_(make()).eval()
        self.train_x, self.train_y = (
            tensor(f"{kind}.train.x", (11, *shape)),
            integers(f"{kind}.train.y", (11,), self.classes),
        )
        self.test_x, self.test_y = tensor(f"{kind}.test.x", (3, *shape)), integers(f"{kind}.test.y", (3,), self.classes)
        self.train = TensorDataset(self.train_x, self.train_y)
        self.inputs = (self.test_x, self.test_y)
        state = self.model.state_dict()
        self.states = [
            {
                name: (1 + 0.1 * k) * value + 0.05 * tensor(f"{kind}.ckpt{k}.{name}", tuple(value.shape))
                for name, value in state.items()
            }
            for k in range(3)
        ]

    def load(self, model, checkpoint):
        model.load_state_dict(self.states[checkpoint])
        return RATES[checkpoint]

    def loader(self, **options):
        return DataLoader(self.train, batch_size=4, **options)

    def test_loader(self):
        return DataLoader(TensorDataset(*self.inputs), batch_size=2)

    def saved(self, folder):
        """A file of the first state."""
        path = str(folder / "model.pt")
        torch.save(self.states[0], path)
        return path


def cross_entropy(output, label):
    return nn.functional.cross_entropy(output, label, reduction="none")


def summed(output, label):
    return nn.functional.cross_entropy(output, label, reduction="sum")


LOSSES = {
    "none": lambda: nn.CrossEntropyLoss(reduction="none"), "sum": lambda: nn.CrossEntropyLoss(reduction="sum"),
    "mean": lambda: nn.CrossEntropyLoss(), "function": lambda: cross_entropy, "summed": lambda: summed,
    "nothing": lambda: None,
}  # fmt: skip
