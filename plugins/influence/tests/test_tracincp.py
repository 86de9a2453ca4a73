"""TracIn: against gradients written out, what it leaves behind, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from subjects import LOSSES, RATES, Subject
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from flambeau.influence import TracInCP, TracInCPFast, TracInCPFastRandProj, _gradients
from flambeau.influence._core import tracincp
from flambeau.influence.errors import BatchError, CheckpointMismatchError, InfluenceError, LossError


def make(subject, **options):
    settings = {"loss_fn": LOSSES["none"](), "batch_size": 4, **options}
    return TracInCP(subject.model, subject.train, iter(range(3)), subject.load, **settings)


def gradient(subject, x, y):
    loss = nn.functional.cross_entropy(subject.model(x.unsqueeze(0)), y.unsqueeze(0))
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, tuple(subject.model.parameters()))])


def written_out(subject):
    total = torch.zeros(3, 11)
    for k, rate in enumerate(RATES):
        subject.model.load_state_dict(subject.states[k])
        test = torch.stack([gradient(subject, x, y) for x, y in zip(*subject.inputs, strict=True)])
        train = torch.stack([gradient(subject, x, y) for x, y in subject.train])
        total += rate * test @ train.T
    return total


@pytest.mark.parametrize("kind", ["net", "conv"])
def test_scores_are_products_of_gradients_summed_over_checkpoints(kind):
    expected = written_out(Subject(kind))
    subject = Subject(kind)
    torch.testing.assert_close(make(subject).influence(subject.inputs), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("most", [1, 100])
def test_memory_is_bounded_without_changing_scores(monkeypatch, most):
    subject = Subject("net")
    expected = make(subject).influence(subject.test_loader())
    monkeypatch.setattr(_gradients, "_MOST", most)
    monkeypatch.setattr(tracincp, "_KEPT", most)
    torch.testing.assert_close(make(subject).influence(subject.test_loader()), expected)
    summed = make(subject).influence(subject.test_loader(), aggregate=True)
    torch.testing.assert_close(summed, expected.sum(0, keepdim=True), rtol=1e-4, atol=1e-5)


class Branching(nn.Module):
    """A network that looks at its values, which no map over examples can follow."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) if float(x.sum()) < 1e9 else self.inner(-x)


def test_networks_that_cannot_be_mapped_are_differentiated_example_by_example():
    subject = Subject("net")
    expected = make(subject).influence(subject.inputs)
    states = [{f"inner.{name}": value for name, value in state.items()} for state in subject.states]

    def load(model, k):
        model.load_state_dict(states[k])
        return RATES[k]

    found = TracInCP(
        Branching(subject.model), subject.train, iter(range(3)), load, loss_fn=LOSSES["none"](), batch_size=4
    )
    torch.testing.assert_close(found.influence(subject.inputs), expected)


def test_modules_used_twice_have_one_gradient():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x):
            return self.layer(torch.tanh(self.layer(x)))

    torch.manual_seed(0)
    subject, model = Subject("net"), Twice()
    found = TracInCP(model, subject.train, [model.state_dict()], loss_fn=LOSSES["none"](), batch_size=4)
    subject.model = model
    expected = torch.stack([gradient(subject, x, y) for x, y in subject.train])
    torch.testing.assert_close(found.self_influence(), expected.square().sum(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["all", "fast"])
def test_the_model_comes_back_as_it_was_also_after_an_error(method):
    subject = Subject("net")
    subject.model.fc1.weight.requires_grad_(False)
    before = {name: value.clone() for name, value in subject.model.state_dict().items()}
    if method == "all":
        influence = make(subject)
    else:
        influence = TracInCPFast(
            subject.model, "fc2", subject.train, iter(range(3)), subject.load, loss_fn=LOSSES["sum"](), batch_size=4
        )
    influence.influence(subject.inputs)
    with pytest.raises((RuntimeError, ValueError)):
        influence.influence((subject.test_x[:, :2], subject.test_y))
    assert all(torch.equal(value, before[name]) for name, value in subject.model.state_dict().items())
    assert not subject.model.fc1.weight.requires_grad and not subject.model.fc2._forward_hooks


def test_a_checkpoint_that_does_not_fit_is_named(tmp_path):
    subject, path = Subject("net"), tmp_path / "other.pt"
    torch.save(nn.Linear(3, 3).state_dict(), path)
    influence = TracInCP(subject.model, subject.train, [str(path)], loss_fn=LOSSES["none"]())
    with pytest.raises(CheckpointMismatchError, match=r"other\.pt cannot be loaded into Net"):
        influence.influence(subject.inputs)
    with pytest.raises(RuntimeError, match=r"nowhere\.pt"):
        TracInCP(
            subject.model, subject.train, [str(tmp_path / "nowhere.pt")], loss_fn=LOSSES["none"]()
        ).self_influence()


def test_a_load_function_that_returns_no_rate_is_refused():
    subject = Subject("net")
    influence = TracInCP(subject.model, subject.train, iter("a"), lambda *_: None, loss_fn=LOSSES["none"]())
    with pytest.raises(InfluenceError, match="returned NoneType, expected the learning rate"):
        influence.self_influence()


@pytest.mark.parametrize("checkpoints", [None, [], "no-such-folder"])
def test_checkpoints_that_are_none_are_refused(checkpoints):
    subject = Subject("net")
    with pytest.raises(InfluenceError, match="checkpoints"):
        TracInCP(subject.model, subject.train, checkpoints, loss_fn=LOSSES["none"]())


def test_a_folder_is_read_in_natural_order_and_rates_lie_in_files(tmp_path):
    subject = Subject("net")
    for number, k in ((10, 2), (2, 1), (1, 0)):
        torch.save({**subject.states[k], "learning_rate": RATES[k]}, tmp_path / f"step-{number}.pt")
    influence = TracInCP(subject.model, subject.train, str(tmp_path), loss_fn=LOSSES["none"](), batch_size=4)
    assert [path.rpartition("-")[2] for path in influence.checkpoints] == ["1.pt", "2.pt", "10.pt"]
    torch.testing.assert_close(influence.influence(subject.inputs), make(subject).influence(subject.inputs))


def test_checkpoints_of_data_parallel_models_fit():
    subject = Subject("net")
    wrapped = [{f"module.{name}": value for name, value in state.items()} for state in subject.states]
    plain = TracInCP(subject.model, subject.train, subject.states, loss_fn=LOSSES["none"](), batch_size=4)
    prefixed = TracInCP(subject.model, subject.train, wrapped, loss_fn=LOSSES["none"](), batch_size=4)
    torch.testing.assert_close(prefixed.self_influence(), plain.self_influence())


def test_loaders_that_shuffle_are_refused():
    subject = Subject("net")
    for loader in (
        subject.loader(shuffle=True),
        DataLoader(subject.train, sampler=torch.utils.data.SubsetRandomSampler([0])),
    ):
        with pytest.raises(BatchError, match=r"train_dataset is a DataLoader with a .*shuffle=False"):
            TracInCP(subject.model, loader, iter(range(3)), subject.load, loss_fn=LOSSES["none"]())
    shuffled = DataLoader(TensorDataset(*subject.inputs), shuffle=True)
    with pytest.raises(BatchError, match="inputs is a DataLoader with a RandomSampler"):
        make(subject).influence(shuffled)
    assert make(subject).influence(shuffled, aggregate=True).shape == (1, 11)


class Unlabelled(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, place):
        return torch.ones(6) * place


def test_data_without_labels_are_refused():
    subject = Subject("net")
    for data, message in (
        (TensorDataset(subject.train_x), "has one element, expected inputs and labels"),
        (Unlabelled(), "is a Tensor, expected a tuple whose last element are the labels"),
    ):
        influence = TracInCP(subject.model, data, iter(range(3)), subject.load, loss_fn=LOSSES["none"]())
        with pytest.raises(BatchError, match=message):
            influence.influence(subject.inputs)
    with pytest.raises(BatchError, match="inputs is a Tensor, expected a batch"):
        make(subject).influence(subject.test_x)
    with pytest.raises(BatchError, match="train_dataset is a int, expected a Dataset"):
        TracInCP(subject.model, 3, iter(range(3)), subject.load, loss_fn=LOSSES["none"]())


def test_normalization_over_the_batch_has_to_be_off():
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
    subject = Subject("net")
    influence = TracInCP(model, subject.train, [model.state_dict()], loss_fn=LOSSES["none"](), batch_size=4)
    with pytest.raises(InfluenceError, match=r"1 is a BatchNorm1d that uses the statistics .* `model\.eval\(\)`"):
        influence.self_influence()
    model.eval()
    assert influence.self_influence().shape == (11,)


@pytest.mark.parametrize(("loss", "each"), [("sum", False), ("mean", False), ("none", True)])
def test_losses_that_reduce_otherwise_are_refused(loss, each):
    with pytest.raises(LossError, match=f"loss_fn has reduction '{loss}', expected"):
        make(Subject("net"), loss_fn=LOSSES[loss](), sample_wise_grads_per_batch=each)


def test_layers_have_to_exist():
    with pytest.raises(InfluenceError, match="layers has 'fc9', which the model does not have"):
        make(Subject("net"), layers=["fc9"])


@pytest.mark.parametrize("k", [0, -1, 1.5])
def test_k_is_a_positive_number(k):
    subject = Subject("net")
    with pytest.raises(InfluenceError, match=r"k is .*, expected a positive int"):
        make(subject).influence(subject.inputs, k=k)


def test_more_examples_than_there_are_are_not_given():
    subject = Subject("net")
    assert make(subject).influence(subject.inputs, k=50).indices.shape == (3, 11)


# The last layer


def fast(subject, layer="fc2", method=TracInCPFast, **options):
    settings = {"loss_fn": LOSSES["sum"](), "batch_size": 4, **options}
    return method(subject.model, layer, subject.train, iter(range(3)), subject.load, **settings)


def test_the_last_layer_gives_what_its_matrix_alone_gives():
    subject = Subject("conv")  # whose last layer has no bias
    expected = make(subject, layers=["fc"]).influence(subject.inputs)
    torch.testing.assert_close(fast(subject, "fc").influence(subject.inputs), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("nothing", "final_fc_layer is 'nothing', which the model does not have"),
        ("conv", "expected \\(examples, numbers\\)"),
    ],
)
def test_the_last_layer_is_a_linear_one(layer, message):
    subject = Subject("conv")
    with pytest.raises(InfluenceError, match=message):
        fast(subject, layer).influence(subject.inputs)


def test_the_last_layer_needs_a_loss():
    with pytest.raises(LossError, match="loss_fn is None"):
        fast(Subject("net"), loss_fn=None)


def test_projected_scores_resemble_exact_ones():
    subject = Subject("conv")
    exact = fast(subject, "fc").influence(subject.inputs)
    scores = [
        fast(subject, "fc", TracInCPFastRandProj, projection_dim=100, seed=seed).influence(subject.inputs, k=None)
        for seed in range(60)
    ]
    assert torch.corrcoef(torch.stack([torch.stack(scores).mean(0).flatten(), exact.flatten()]))[0, 1] > 0.9


def test_stored_gradients_have_no_self_influence():
    with pytest.raises(NotImplementedError, match="`TracInCPFast` takes the same arguments"):
        fast(Subject("net"), method=TracInCPFastRandProj).self_influence()
