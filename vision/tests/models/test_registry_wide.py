"""What holds for every model of the registry, or for the smallest model of every family of classifiers."""

import inspect

import pytest
import torch
from torch import nn

from flambeau.core.registry import MODELS
from flambeau.core.testing.golden import upstream_facts
from flambeau.core.weights import empty_parameters
from flambeau.vision import models

NAMES = models.list_models()
CLASSIFIERS = [name for name in NAMES if MODELS.info(f"vision/{name}").get("task") == "image-classification"]


def smallest_of_each_family():
    """One name per module, of the model with the fewest parameters."""
    chosen: dict[str, tuple[int, str]] = {}
    for name in CLASSIFIERS:
        size = min(member.meta["num_params"] for member in models.get_model_weights(name))
        module = MODELS.info(f"vision/{name}")["target"].partition(":")[0]
        chosen[module] = min(chosen.get(module, (size, name)), (size, name))
    return sorted(name for _, name in chosen.values())


FAMILIES = smallest_of_each_family()


def build(name: str, **options):
    builder = models.get_model_builder(name)
    if "weights_backbone" in inspect.signature(builder).parameters:
        options["weights_backbone"] = None
    return builder(weights=None, **options)


def pictures(name: str, at_least: int = 32) -> torch.Tensor:
    if name == "digit_cnn":
        return torch.rand(2, 1, 8, 8)
    side = max(at_least, models.get_model_weights(name).DEFAULT.meta["min_size"][0])
    return torch.rand(2, 3, side, side)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_built_without_memory_for_parameters_and_keeps_its_buffers(name):
    with empty_parameters():
        model = build(name)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert not any(buffer.is_meta for buffer in model.buffers())


def declared(model: nn.Module, layers: list[str]) -> list[nn.Module]:
    """Layers that a builder names, without those in parts that this model was built without."""
    present = [path for path in layers if getattr(model, path.partition(".")[0], None) is not None]
    return [model.get_submodule(path) for path in present]


@pytest.mark.parametrize("name", NAMES)
def test_the_builders_declared_head_and_stem_are_layers_of_the_model(name):
    info = MODELS.info(f"vision/{name}")
    with torch.device("meta"):
        model = build(name)
    heads, stems = declared(model, info.get("head", [])), declared(model, info.get("stem", []))
    assert bool(heads) == bool(info.get("head"))
    assert all(isinstance(head, (nn.Linear, nn.Conv2d, nn.Conv3d)) for head in heads)
    for stem in stems:
        assert isinstance(stem, (nn.Conv2d, nn.Conv3d))
        assert stem.in_channels == (1 if name == "digit_cnn" else 3)


@pytest.mark.parametrize("name", FAMILIES)
def test_channels_last_is_kept_up_to_the_last_convolution(name):
    model = build(name).eval().to(memory_format=torch.channels_last)
    seen = {}
    for path, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_pre_hook(lambda module, args, path=path: seen.setdefault(path, args[0]))
    model(pictures(name).to(memory_format=torch.channels_last))
    lost = [path for path, value in seen.items() if value.stride(1) != 1]  # some are slices, so not contiguous
    assert lost == []


@pytest.mark.parametrize("name", FAMILIES)
def test_bfloat16_gives_the_result_of_float32_to_its_precision(name):
    torch.manual_seed(0)
    model = build(name).eval()
    x = pictures(name)
    with torch.inference_mode():
        expected = model(x)
        out = model.bfloat16()(x.bfloat16())
    assert out.dtype is torch.bfloat16
    error = (out.float() - expected).abs().max() / expected.abs().max().clamp_min(1e-6)
    assert error < 0.1


@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_reach_every_parameter_in_train_mode(name):
    torch.manual_seed(0)
    model = build(name)
    out = model(pictures(name, at_least=299 if name.endswith("inception_v3") else 32))  # as its auxiliary head wants it
    outputs = [out] if isinstance(out, torch.Tensor) else [each for each in out if each is not None]
    sum(each.sum() for each in outputs).backward()
    assert [path for path, parameter in model.named_parameters() if parameter.grad is None] == []


def test_every_recorded_builder_is_registered_from_its_recorded_place():
    record = upstream_facts("models", __file__)["models"]
    assert set(record) <= set(NAMES)
    for name, facts in record.items():
        module = MODELS.info(f"vision/{name}")["target"].partition(":")[0]
        assert module == facts["module"].replace("torchvision", "flambeau.vision")
