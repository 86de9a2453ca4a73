"""Results on the way: their names, extractors by tracing and by hooks, modes, copies."""

import copy
import math
import pickle
import warnings

import pytest
import torch
from torch import Tensor, fx, nn

from flambeau.core.registry import MODELS
from flambeau.vision import models, ops
from flambeau.vision.models.feature_extraction import (
    DualGraphModule,
    create_feature_extractor,
    get_graph_node_names,
)

CLASSIFIERS = models.list_models(include=[
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "inception_v3",
    "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "regnet_y_400mf", "resnet18", "resnet50", "shufflenet_v2_x0_5",
    "squeezenet1_1", "vgg11_bn",
])  # fmt: skip


class Branching(nn.Module):
    """Calls a layer twice, a function, and something else in train mode."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.inner = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())
        self.aux = nn.Linear(4, 2)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.stem(x)))
        x = self.relu(self.inner(x) + x)
        x = x.mean((2, 3))
        return self.head(x) + self.aux(x) if self.training else self.head(x)


class Untraceable(nn.Module):
    """Has control flow that depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        if x.sum() > 1e9:
            return x
        return self.relu(self.layer(self.relu(x)))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Branching().eval()


@pytest.fixture
def x():
    return torch.rand(2, 3, 5, 6)


def test_names_are_paths_and_functions_numbered_where_they_repeat(model):
    with pytest.warns(UserWarning, match=r"only in train mode: add_1, aux"):
        train, evaluation = get_graph_node_names(model)
    assert evaluation == ["x", "stem", "norm", "relu", "inner.0", "inner.1", "add", "relu_1", "mean", "head"]
    assert train == [*evaluation, "aux", "add_1"]


def test_the_warning_about_modes_can_be_left_out(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get_graph_node_names(model, suppress_diff_warning=True)


def test_numbers_at_the_end_of_names_are_counted_anew():
    """As upstream, where `ln_1` is whatever is called second."""
    names, _ = get_graph_node_names(_Two())
    assert names == ["x", "ln", "ln_1", "ln_2"]


class _Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(2), nn.LayerNorm(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.ln_1(self.ln_1(self.ln_2(x)))


def test_results_are_those_of_the_model_in_the_order_of_their_computation(model, x):
    extractor = create_feature_extractor(model, {"inner": "late", "stem": "early"}, suppress_diff_warning=True)
    out = extractor(x)
    assert list(out) == ["early", "late"]
    stem = model.stem(x)
    torch.testing.assert_close(out["early"], stem)
    torch.testing.assert_close(out["late"], model.inner(model.norm(stem).relu()))


def test_a_result_that_is_overwritten_later_is_copied(model, x):
    for mode in ("fx", "hooks"):
        extractor = create_feature_extractor(model, ["norm", "relu"], suppress_diff_warning=True, mode=mode)
        out = extractor(x)
        torch.testing.assert_close(out["norm"], model.norm(model.stem(x)))
        assert out["norm"].min() < 0 <= out["relu"].min()


def test_a_change_in_place_whose_result_nobody_reads_is_kept():
    class Marking(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = x + 1
            x.mul_(3)
            return torch.relu(x)

    assert create_feature_extractor(Marking(), ["relu"])(torch.ones(2))["relu"].tolist() == [6.0, 6.0]


def test_what_is_not_needed_is_dropped(model):
    extractor = create_feature_extractor(model, ["norm"], suppress_diff_warning=True)
    assert [name for name, _ in extractor.named_children()] == ["stem", "norm"]
    assert list(extractor.state_dict()) == [name for name in model.state_dict() if name.startswith(("stem", "norm"))]
    assert extractor.stem is model.stem


def test_each_mode_can_have_its_own_results(model, x):
    extractor = create_feature_extractor(model, train_return_nodes={"aux": "out"}, eval_return_nodes={"head": "out"})
    torch.testing.assert_close(extractor(x)["out"], model(x))
    assert extractor.eval() is extractor
    assert list(extractor.train()(x)) == ["out"]
    torch.testing.assert_close(extractor.eval()(x)["out"], model.eval()(x))


def test_the_mode_of_the_model_and_of_its_parts_is_left_as_it_was(model):
    model.train()
    model.norm.eval()
    extractor = create_feature_extractor(model, ["norm"], suppress_diff_warning=True)
    assert [module.training for module in (model, model.norm, model.stem, extractor)] == [True, False, True, True]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_extractors_copy_and_pickle_with_both_graphs(model, x, copied):
    extractor = create_feature_extractor(model, train_return_nodes=["aux"], eval_return_nodes=["head"])
    twin = copied(extractor)
    assert isinstance(twin, DualGraphModule)
    torch.testing.assert_close(twin(x), extractor(x))
    assert list(twin.train()(x)) == ["aux"]
    assert twin.stem is not extractor.stem
    assert list(twin.state_dict()) == list(extractor.state_dict())


def test_gradients_flow_through_results(model, x):
    create_feature_extractor(model, ["inner.0"], suppress_diff_warning=True)(x)["inner.0"].sum().backward()
    assert model.stem.weight.grad is not None
    assert model.head.weight.grad is None


def test_leaf_modules_and_wrapped_functions_are_one_node(model):
    options = {"leaf_modules": [nn.Sequential], "autowrap_functions": (twice,)}
    _, names = get_graph_node_names(nn.Sequential(nn.ReLU(), _Calling()), tracer_kwargs={})
    assert names == ["input", "0", "1.mul"]
    _, names = get_graph_node_names(_Calling(), tracer_kwargs={"autowrap_functions": options["autowrap_functions"]})
    assert names == ["x", "twice"]
    _, names = get_graph_node_names(model, {"leaf_modules": options["leaf_modules"]}, suppress_diff_warning=True)
    assert "inner" in names


def twice(x):
    return x * 2


class _Calling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return twice(x)


def test_layers_of_ops_are_one_node():
    block = nn.Sequential(ops.Conv2dNormActivation(3, 4), ops.SqueezeExcitation(4, 2), ops.StochasticDepth(0.1, "row"))
    assert get_graph_node_names(block)[1] == ["input", "0", "1", "2"]


def test_of_two_results_with_one_key_the_earlier_is_returned(model, x):
    extractor = create_feature_extractor(model, {"stem": "out", "head": "out"}, suppress_diff_warning=True)
    torch.testing.assert_close(extractor(x)["out"], model.stem(x))


@pytest.mark.parametrize(
    ("name", "shape", "last"),
    [
        ("maxvit_t", (1, 3, 224, 224), "blocks.3.layers.1.layers.grid_attention.add_1"),
        ("mvit_v2_s", (1, 3, 16, 224, 224), "blocks.15.add_1"),
        ("swin3d_t", (1, 3, 8, 64, 64), "features.6.1.add_1"),
        ("swin_v2_t", (1, 3, 64, 64), "features.7.1.add_1"),
        ("vit_b_16", (1, 3, 224, 224), "encoder.layers.encoder_layer_11.add_1"),
    ],
)
def test_transformers_are_traced_in_both_modes(name, shape, last):
    with torch.device("meta"):
        model = models.get_model(name, weights=None)
        train, evaluation = get_graph_node_names(model)
        assert last in train
        assert train == evaluation
        assert torch.fx.symbolic_trace(model)(torch.zeros(shape)).shape == model(torch.zeros(shape)).shape
        extractor = create_feature_extractor(model, [last])
        assert extractor(torch.zeros(shape))[last].shape[0] == 1


def test_arguments_can_be_fixed():
    class Choosing(nn.Module):
        def forward(self, x: Tensor, double: bool = False) -> Tensor:
            return x * 2 if double else x + 1

    names = get_graph_node_names(Choosing(), concrete_args={"double": True})[1]
    assert "mul" in names
    assert create_feature_extractor(Choosing(), ["add"], concrete_args={"double": False})(torch.ones(1))["add"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Give return_nodes"),
        ({"train_return_nodes": ["stem"]}, "Give return_nodes"),
        ({"return_nodes": ["stem"], "eval_return_nodes": ["stem"]}, "return_nodes is for both modes"),
        ({"return_nodes": ["stem"], "mode": "jit"}, "mode is 'jit', expected 'fx' or 'hooks'"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(model, options, message):
    with pytest.raises(ValueError, match=message):
        create_feature_extractor(model, **options)


@pytest.mark.parametrize("mode", ["fx", "hooks"])
def test_a_wrong_name_is_answered_with_near_ones(model, mode):
    with pytest.raises(ValueError, match=r"named 'stemm'.*Close names: .*stem"):
        create_feature_extractor(model, ["stemm"], suppress_diff_warning=True, mode=mode)


def test_a_model_that_cannot_be_traced_says_so_and_works_with_hooks():
    model = Untraceable()
    with pytest.raises(fx.proxy.TraceError, match=r"Untraceable cannot be traced .*mode='hooks'"):
        create_feature_extractor(model, ["layer"])
    extractor = create_feature_extractor(model, {"layer_1": "second", "layer": "first"}, mode="hooks")
    x = torch.rand(3, 2)
    out = extractor(x)
    assert list(out) == ["first", "second"]
    torch.testing.assert_close(out["first"], model.layer(x))
    torch.testing.assert_close(out["second"], model.layer(model.layer(x).relu()))


def test_hooks_leave_nothing_behind_and_say_what_was_not_called(model, x):
    extractor = create_feature_extractor(model, {"head": "head", "relu_2": "third"}, mode="hooks")
    with pytest.raises(RuntimeError, match="call 2 of 'relu'; the first call has number 0"):
        extractor(x)
    assert not any(module._forward_hooks for module in model.modules())


def test_hooks_know_the_modes_too(model, x):
    extractor = create_feature_extractor(model, train_return_nodes=["aux"], eval_return_nodes=["head"], mode="hooks")
    assert list(extractor(x)) == ["head"]
    assert list(extractor.train()(x)) == ["aux"]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_both_ways_agree_on_published_networks(name):
    torch.manual_seed(0)
    model = models.get_model(name, weights=None).eval()
    head = MODELS.info(f"vision/{name}")["head"][0]
    stem = MODELS.info(f"vision/{name}")["stem"][0]
    # A convolution with its normalization and activation is one node.
    first = next(path for path in _paths(stem) if isinstance(model.get_submodule(path), _LEAVES))
    side = max(64, model_size(name))
    x = torch.rand(1, 3, side, side)
    with torch.inference_mode():
        traced = create_feature_extractor(model, [first, head], suppress_diff_warning=True)(x)
        hooked = create_feature_extractor(model, [first, head], mode="hooks")(x)
        result = model(x)
    for key in (first, head):
        torch.testing.assert_close(traced[key], hooked[key])
    assert math.prod(traced[head].shape) >= math.prod(result.shape)
    if not name.startswith("squeezenet"):  # which pools after its head
        torch.testing.assert_close(traced[head], result)


_LEAVES = (ops.Conv2dNormActivation, nn.Conv2d)


def _paths(name: str) -> list[str]:
    """A path and what is above it, outermost first: a, a.b, a.b.c."""
    parts = name.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def model_size(name: str) -> int:
    return models.get_model_weights(name).DEFAULT.meta["min_size"][0]


def test_an_extractor_compiles_whole_and_exports(model, x):
    extractor = create_feature_extractor(model, ["inner", "head"], suppress_diff_warning=True)
    expected = extractor(x)
    torch.testing.assert_close(torch.compile(extractor, fullgraph=True, backend="aot_eager")(x), expected)
    torch.testing.assert_close(torch.export.export(extractor, (x,)).module()(x), expected)
