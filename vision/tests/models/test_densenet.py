"""DenseNet: old names in checkpoints, and memory-efficient training."""

import pytest
import torch

from flambeau.core.weights import build_with_weights
from flambeau.vision.models.densenet import DenseNet, _current_names, densenet121


def tiny(**options):
    return DenseNet(growth_rate=4, block_config=(2, 2), num_init_features=8, num_classes=3, **options)


def old_name(name: str) -> str:
    """As files of 2017 have it: `norm.1` for `norm1` inside dense layers."""
    head, layer, tail = name.partition("denselayer")
    number, _, rest = tail.partition(".")
    for kind in ("norm", "conv"):
        rest = rest.replace(f"{kind}1.", f"{kind}.1.").replace(f"{kind}2.", f"{kind}.2.")
    return f"{head}{layer}{number}.{rest}" if layer else name


def test_checkpoints_with_old_names_load():
    state = tiny().state_dict()
    old = {old_name(name): value for name, value in state.items()}
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    assert list(_current_names(old)) == list(state)
    assert list(_current_names(state)) == list(state)


def test_builders_read_files_with_old_names(tmp_path):
    state = densenet121(num_classes=2).state_dict()
    torch.save({old_name(name): value for name, value in state.items()}, tmp_path / "old.pth")
    model = build_with_weights(
        DenseNet, tmp_path / "old.pth", 32, (6, 12, 24, 16), 64, num_classes=2, convert=_current_names
    )
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name


def test_memory_efficient_training_gives_the_same_gradients():
    torch.manual_seed(0)
    plain, efficient = tiny(), tiny(memory_efficient=True)
    efficient.load_state_dict(plain.state_dict())
    x = torch.rand(2, 3, 32, 32)
    for model in (plain, efficient):
        model.eval()(x).sum().backward()
    for (name, expected), (_, parameter) in zip(plain.named_parameters(), efficient.named_parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected.grad, msg=name)


def test_memory_efficient_training_keeps_less_for_the_backward_pass():
    kept = {}
    for efficient in (False, True):
        saved = []

        def pack(value, into=saved):
            into.append(value)
            return value

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
            tiny(memory_efficient=efficient)(torch.rand(2, 3, 64, 64))
        kept[efficient] = len(saved)
    assert kept[True] < kept[False]


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_dropout_acts_in_train_mode_alone(rate):
    torch.manual_seed(0)
    model = tiny(drop_rate=rate)
    layer = model.features.denseblock1.denselayer1
    x = torch.rand(4, 8, 8, 8)
    assert (layer(x) == 0).float().mean().item() == pytest.approx(rate, abs=0.1)
    assert not (layer.eval()(x) == 0).any()
