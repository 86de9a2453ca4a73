"""TRAK: against dense projections, and against what retraining says."""

from __future__ import annotations

import pytest
import torch
from subjects import Subject
from torch import nn
from torch.utils.data import TensorDataset

from flambeau.influence import TRAK
from flambeau.influence._core.trak import class_margin
from flambeau.influence._gradients import SampleGradients
from flambeau.influence._projection import RandomProjection
from flambeau.influence.errors import BatchError, CheckpointMismatchError, InfluenceError, LossError, StoreError
from flambeau.influence.measures import leave_one_out, linear_datamodeling_score, random_subsets, subset_outputs


def make(subject, **options):
    settings = {"batch_size": 4, "projection_dim": 6, **options}
    return TRAK(subject.model, subject.train, iter(range(3)), subject.load, **settings)


def written_out(subject, dim, damping):
    """The paper's formula with dense matrices, one checkpoint after the other."""
    names = [name for name, _ in subject.model.named_parameters()]
    gradients = SampleGradients(subject.model, names, class_margin, "data")
    parts, weights = [], []
    for k in range(3):
        subject.load(subject.model, k)
        train, test = gradients(subject.train.tensors).double(), gradients(subject.inputs).double()
        matrix = RandomProjection(dim, 0, k).matrix(train.shape[1]).double()
        train, test = train @ matrix, test @ matrix
        parts.append(test @ torch.linalg.inv(train.T @ train + damping * torch.eye(dim)) @ train.T)
        chances = subject.model(subject.train_x).softmax(1)
        weights.append(1 - chances.gather(1, subject.train_y.unsqueeze(1)).squeeze(1))
    return (torch.stack(parts).mean(0) * torch.stack(weights).mean(0)).float().detach()


@pytest.mark.parametrize("kind", ["net", "conv"])
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_scores_are_the_papers_with_dense_projections(kind, damping):
    expected = written_out(Subject(kind), 6, damping)
    subject = Subject(kind)
    found = make(subject, damping=damping).influence(subject.inputs)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("size", [1, 3, 11])
def test_scores_do_not_depend_on_the_size_of_batches(size):
    subject = Subject("net")
    expected = make(subject).influence(subject.inputs)
    torch.testing.assert_close(
        make(subject, batch_size=size).influence(subject.test_loader()), expected, rtol=1e-4, atol=1e-5
    )


def test_the_margin_is_the_logarithm_of_the_odds():
    output, label = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 3, 1, 1, 2])
    chance = output.softmax(1).gather(1, label.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(class_margin(output, label), (chance / (1 - chance)).log())
    with pytest.raises(LossError, match="pass `output_fn` for others"):
        class_margin(output[:, :1], label)


def test_k_finds_the_largest_and_own_scores_lie_on_the_diagonal():
    subject = Subject("net")
    trak = make(subject)
    scores = trak.influence(subject.inputs)
    assert torch.equal(trak.influence(subject.inputs, k=3).indices, scores.topk(3).indices)
    assert torch.equal(trak.influence(subject.inputs, k=3, proponents=False).indices, (-scores).topk(3).indices)
    own = trak.influence(subject.train.tensors).diagonal()
    torch.testing.assert_close(trak.self_influence(), own, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(trak.self_influence(subject.train.tensors), own, rtol=1e-4, atol=1e-6)
    assert trak.compute_intermediate_quantities(subject.inputs).shape == (3, 18)


def test_stored_features_give_the_same_scores_and_are_used_again(tmp_path):
    subject = Subject("net")
    expected = make(subject).influence(subject.inputs)
    torch.testing.assert_close(make(subject, store=tmp_path).influence(subject.inputs), expected, rtol=2e-2, atol=2e-3)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.bin")}
    again = make(subject, store=tmp_path).influence(subject.inputs)
    torch.testing.assert_close(again, expected, rtol=2e-2, atol=2e-3)
    assert len(before) == 2 and before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.bin")}
    subject.states[0]["fc1.bias"] += 1
    with pytest.raises(StoreError, match="whose about is"):
        make(subject, store=tmp_path).influence(subject.inputs)


def test_fewer_examples_than_dimensions_need_damping():
    subject = Subject("net")
    with pytest.raises(InfluenceError, match=r"do not fill 40 dimensions with damping=0\.0; pass a larger `damping`"):
        make(subject, projection_dim=40, damping=0.0).influence(subject.inputs)
    assert make(subject, projection_dim=40).influence(subject.inputs).isfinite().all()


def test_what_does_not_fit_is_refused():
    subject = Subject("net")
    with pytest.raises(InfluenceError, match="damping is -1"):
        make(subject, damping=-1)
    with pytest.raises(InfluenceError, match="dimension of a projection is 0"):
        make(subject, projection_dim=0)
    with pytest.raises(BatchError, match=r"shuffle=False"):
        TRAK(subject.model, subject.loader(shuffle=True), iter(range(3)), subject.load)
    with pytest.raises(InfluenceError, match="store needs train_dataset as a dataset"):
        TRAK(subject.model, subject.loader(), iter(range(3)), subject.load, store="x")
    with pytest.raises(LossError, match=r"expected \(examples,\) of both"):
        make(subject, loss_of_output=lambda value, label: value.sum()).influence(subject.inputs)
    with pytest.raises(BatchError, match="expected inputs and labels"):
        TRAK(subject.model, TensorDataset(subject.train_x), iter(range(3)), subject.load).influence(subject.inputs)
    with pytest.raises(CheckpointMismatchError, match="cannot be loaded into Net"):
        TRAK(subject.model, subject.train, [nn.Linear(2, 2).state_dict()]).influence(subject.inputs)


# Against retraining

TRAIN, TEST = 60, 8


class Problem:
    """Two overlapping clouds of points, one in eight with the wrong label, and a network of twelve hidden units."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        points = torch.randn(TRAIN + TEST, 4, generator=generator)
        labels = (points[:, 0] + points[:, 1] * points[:, 2] + 0.3 * points[:, 3] > 0).long()
        self.x, self.y = points[:TRAIN], labels[:TRAIN].clone()
        self.y[torch.arange(0, TRAIN, 8)] ^= 1
        self.test = (points[TRAIN:], labels[TRAIN:])

    def trained(self, positions, seed):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 2))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=1e-2)
        for _ in range(80):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(self.x[positions]), self.y[positions]).backward()
            optimizer.step()
        return model

    def fit(self, positions, seed):
        return class_margin(self.trained(positions, seed)(self.test[0]), self.test[1]).detach()

    def trak(self, trainings):
        models = [self.trained(torch.arange(TRAIN), seed) for seed in range(trainings)]
        states = [model.state_dict() for model in models]
        return TRAK(models[0], TensorDataset(self.x, self.y), iter(states), batch_size=20, projection_dim=32)


@pytest.mark.slow
def test_sums_of_scores_rank_subsets_as_retraining_does():
    problem = Problem()
    subsets = random_subsets(TRAIN, 60)
    outputs = subset_outputs(problem.fit, subsets, repeats=3)
    few, many = (
        float(linear_datamodeling_score(problem.trak(n).influence(problem.test), subsets, outputs).mean())
        for n in (1, 10)
    )
    shuffled = torch.randn(TEST, TRAIN, generator=torch.Generator().manual_seed(0))
    chance = float(linear_datamodeling_score(shuffled, subsets, outputs).mean())
    assert many > 0.4 and many > few > chance


@pytest.mark.slow
def test_scores_resemble_what_leaving_an_example_out_does():
    problem = Problem()
    truth = leave_one_out(problem.fit, TRAIN, repeats=3)
    scores = problem.trak(10).influence(problem.test)
    assert float(torch.corrcoef(torch.stack([truth.flatten(), scores.flatten()]))[0, 1]) > 0.5
