"""Networks beside torchvision's under torch.fx: names of nodes, graphs, and modules that return what is in between."""

from __future__ import annotations

import functools
import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from flambeau.core.testing import fill
from flambeau.core.testing.differential import Cell, Library, Suite, program
from flambeau.vision import models

pytest.importorskip("torchvision.models.feature_extraction")
SUITE = Suite(
    "tracing",
    ours="flambeau.vision",
    peer="torchvision",
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-5,
)

# One builder of each family: these run in every session, all others where slow tests do.
FAMILIES = [
    "alexnet",
    "convnext_tiny",
    "deeplabv3_resnet50",
    "densenet121",
    "efficientnet_b0",
    "efficientnet_v2_s",
    "fasterrcnn_resnet50_fpn",
    "fcn_resnet50",
    "fcos_resnet50_fpn",
    "googlenet",
    "inception_v3",
    "keypointrcnn_resnet50_fpn",
    "lraspp_mobilenet_v3_large",
    "maskrcnn_resnet50_fpn",
    "maxvit_t",
    "mc3_18",
    "mnasnet0_5",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "mvit_v1_b",
    "mvit_v2_s",
    "quantized_googlenet",
    "quantized_inception_v3",
    "quantized_mobilenet_v2",
    "quantized_mobilenet_v3_large",
    "quantized_resnet18",
    "quantized_resnet50",
    "quantized_shufflenet_v2_x0_5",
    "r2plus1d_18",
    "r3d_18",
    "raft_small",
    "regnet_x_400mf",
    "regnet_y_400mf",
    "resnet18",
    "resnet50",
    "retinanet_resnet50_fpn",
    "s3d",
    "shufflenet_v2_x0_5",
    "squeezenet1_0",
    "ssd300_vgg16",
    "ssdlite320_mobilenet_v3_large",
    "swin3d_t",
    "swin_t",
    "swin_v2_t",
    "vgg11",
    "vgg11_bn",
    "vit_b_16",
]
# torchvision builds RegNets with memory only; of this one the others have every part.
HUGE = ["regnet_y_128gf"]
REST = [name for name in models.list_models(exclude=["digit_cnn"]) if name not in (*FAMILIES, *HUGE)]

VIDEO = ("mc3", "mvit", "r2plus1d", "r3d", "s3d", "swin3d")
SIZES = {"inception": 299, "quantized_inception": 299, "swin_v2": 256}


@functools.lru_cache(maxsize=2)  # the cells of one network follow one another
def built(library: Any, name: str) -> nn.Module:
    """A network without memory, where its builder can do without."""
    builder = library.models.get_model_builder(name)
    options = {"weights_backbone": None} if "weights_backbone" in inspect.signature(builder).parameters else {}
    if name.startswith(("regnet", "raft")):
        return builder(weights=None, **options)
    with torch.device("meta"):
        return builder(weights=None, **options)


def network(library: Library, name: str) -> nn.Module:
    """The network of one of both libraries; built in the call, as its thousands of parameters need no comparison."""
    return built(library._namespace, name).eval()


def nodes_of(model: nn.Module, training: bool) -> list[tuple[str, str]]:
    """Kind and name of each node of a model's graph as torch.fx traces it by itself; a method is a function, too."""
    nodes = fx.symbolic_trace(model.train(training)).graph.nodes
    return [(node.op.replace("method", "function"), node.name) for node in nodes]


def children(model: nn.Module) -> list[str]:
    return [name for name, part in model.named_children() if not isinstance(part, nn.Identity)]


def shapes(model: nn.Module, name: str, library: Library, training: bool) -> Any:
    """What a module that returns the results of a model's parts returns, on the device without memory."""
    feature_extraction = library.models.feature_extraction
    parts = [part for part in children(model) if not part.lower().startswith("aux")]
    extractor = feature_extraction.create_feature_extractor(model, parts, suppress_diff_warning=True)
    device = next(model.parameters()).device
    side = next((size for prefix, size in SIZES.items() if name.startswith(prefix)), 224)
    shape = (2, 3, 16, side, side) if name.startswith(VIDEO) else (2, 3, side, side)
    with torch.no_grad():
        return {
            key: tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            for key, value in extractor.train(training)(torch.zeros(shape, device=device)).items()
        }


NAMES: dict[str, Any] = {"torch": torch, "nn": nn, "nodes_of": nodes_of, "children": children}
PROGRAMS = {
    "names": "models.feature_extraction.get_graph_node_names(model, suppress_diff_warning=True)",
    "names with sequences whole": (
        "models.feature_extraction.get_graph_node_names(model, {'leaf_modules': [nn.Sequential]}, True)"
    ),
    "graph in training": "nodes_of(model, True)",
    "graph in evaluation": "nodes_of(model, False)",
    "unknown part": "models.feature_extraction.create_feature_extractor(model, ['nowhere'])",
}


def cells_of(name: str) -> list[Cell]:
    lent = {**NAMES, "network": network}
    cells = [
        Cell(f"{what}/{name}", what, program(f"model = network(library, {name!r}); {text}", lent))
        for what, text in PROGRAMS.items()
    ]
    for mode, training in (("training", True), ("evaluation", False)):
        area = f"results of parts in {mode}"
        call = f"shapes(network(library, {name!r}), {name!r}, library, {training})"
        cells.append(Cell(f"{area}/{name}", area, program(call, {**lent, "shapes": shapes})))
    return cells


# Values, with parameters that depend on their names alone.
LIGHT = {
    "mobilenet_v3_small": "{'features.3.add': 'x', 'features.12': 'y', 'classifier.0': 'z'}",
    "resnet18": "['layer1.1.relu', 'layer2', 'layer4.1.relu_1', 'flatten', 'fc']",
    "shufflenet_v2_x0_5": "['stage2', 'stage3.1.branch2.7', 'mean']",
    "squeezenet1_1": "{'features.3': 'low', 'features.12': 'high'}",
    "swin_t": "['features.1.0.add_1', 'features.1.1.norm2', 'features.3', 'norm', 'head']",
    "vit_b_16": "['encoder.layers.encoder_layer_0.ln', 'encoder.layers.encoder_layer_1.ln_1', 'encoder.ln', 'heads']",
}


def filled(name: str) -> Any:
    def make(library: Library) -> dict[str, Any]:
        model = fill.fill_(library.models.get_model(name, weights=None)).eval()
        return {"model": model, "x": fill.tensor("images", (2, 3, 224, 224))}

    return make


for name in (*FAMILIES, *REST):
    SUITE.add(*cells_of(name))
for name, nodes in LIGHT.items():
    text = f"torch.no_grad().__enter__(); models.feature_extraction.create_feature_extractor(model, {nodes})(x)"
    SUITE.add(Cell(f"values/{name}", "values", program(text, NAMES), filled(name), effects=False))

ARGUMENTS = [
    "create_feature_extractor(model)",
    "create_feature_extractor(model, [])(x)",
    "create_feature_extractor(model, ['layer1'], train_return_nodes=['layer1'])",
    "create_feature_extractor(model, train_return_nodes=['layer1'])",
    "create_feature_extractor(model, train_return_nodes=['layer1'], eval_return_nodes=['layer2'])(x).keys()",
    "create_feature_extractor(model, train_return_nodes=['layer1'], eval_return_nodes=['layer2']).train()(x).keys()",
    "create_feature_extractor(model, {'layer1': 'a', 'layer2': 'a'})(x)",
    "create_feature_extractor(model, {'layer1': 'a', 'layer1.0': 'b', 'conv1': 'c'})(x)",
    "create_feature_extractor(model, ['layer1.', 'lay'])(x)",
    "create_feature_extractor(model, ['x'])(x)",
    "sorted(create_feature_extractor(model, ['layer2']).state_dict())",
    "create_feature_extractor(model, ['layer2'], tracer_kwargs={'leaf_modules': [type(model.layer1[0])]})(x)",
    "get_graph_node_names(model, {'leaf_modules': [type(model.layer1[0])]})",
    "get_graph_node_names(model, {'autowrap_functions': (torch.flatten,)})",
    "get_graph_node_names(model, {'unknown': 1})",
    "get_graph_node_names(model, concrete_args={'x': x})",
    "get_graph_node_names(nn.Sequential(nn.ReLU(), nn.ReLU()))",
    "get_graph_node_names(nn.ReLU())",
    "get_graph_node_names('resnet18')",
    "model.eval(); get_graph_node_names(model); [part.training for part in model.modules()]",
    "model.layer1.train(); create_feature_extractor(model, ['layer2']); [part.training for part in model.modules()]",
]


def small(library: Library) -> dict[str, Any]:
    return {"model": fill.fill_(library.models.resnet18(num_classes=3)).eval(), "x": fill.tensor("x", (1, 3, 32, 32))}


for text in ARGUMENTS:
    call = text.replace("create_feature", "models.feature_extraction.create_feature")
    call = call.replace("get_graph", "models.feature_extraction.get_graph")
    SUITE.add(
        Cell(
            f"arguments/{text}",
            "arguments",
            program(f"torch.set_grad_enabled(False); {call}", NAMES),
            small,
            effects=False,
        )
    )


@pytest.fixture(autouse=True)
def gradients_on_afterwards():
    yield
    torch.set_grad_enabled(True)


def marked(cell: Cell) -> Any:
    return pytest.param(cell, marks=pytest.mark.slow) if cell.id.rpartition("/")[2] in REST else cell


@pytest.mark.parametrize("cell", [marked(cell) for cell in SUITE.cells], ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
