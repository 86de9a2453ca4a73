"""Listing, finding and registering models and weights beside torchvision."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from pictures import programs

from flambeau.core.registry import MODELS
from flambeau.core.testing.differential import Cell, Library, Suite, program

upstream = pytest.importorskip("torchvision.models")


def describe(value: Any, recorder: Any, where: str) -> Any:
    """Records of builders, of enumerations of weights by their names and of presets by what they are called."""
    if callable(value) and hasattr(value, "__wrapped__"):
        return f"<builder {value.__name__}>"
    if type(value).__name__ == "Weights":
        return {"url": value.url, "meta": recorder.describe(facts(value.meta))}
    return NotImplemented


def facts(meta: Any) -> dict[str, Any]:
    """What is known of weights but for words and links; ours tell the licence of all, and where it stands."""
    return {name: meta[name] for name in sorted(meta) if name not in ("_docs", "recipe", "license", "license_url")}


def preset(transforms: Any) -> dict[str, Any]:
    """What a preset does, by its class and arguments."""
    names = ("crop_size", "resize_size", "mean", "std", "interpolation", "antialias")
    arguments = {name: getattr(transforms, name) for name in names if hasattr(transforms, name)}
    return {"class": type(transforms).__name__, **arguments}


SUITE = Suite(
    "model registry",
    ours="flambeau.vision",
    peer="torchvision",
    differences=Path(__file__).with_name("differences.toml"),
    describers=[describe],
)
NAMES: dict[str, Any] = {"torch": torch, "facts": facts, "preset": preset}

LISTING = programs("""
    models.list_models()
    models.list_models(models)
    models.list_models(module=models.detection)
    models.list_models(module=models.quantization)
    models.list_models(module=models.segmentation)
    models.list_models(module=models.video)
    models.list_models(module=models.optical_flow)
    models.list_models(module=torch)
    models.list_models(include="resnet*")
    models.list_models(include=["resnet*", "vgg1?", "RESNET18"])
    models.list_models(include=("*_v2", "*50*"))
    models.list_models(include={"alexnet"})
    models.list_models(include=[])
    models.list_models(include=())
    models.list_models(include="")
    models.list_models(include=None)
    models.list_models(include="none")
    models.list_models(include="*RESNET*")
    models.list_models(include="resnet[15]*")
    models.list_models(include=5)
    models.list_models(include=[5])
    models.list_models(exclude="*resnet*")
    models.list_models(exclude=[])
    models.list_models(exclude="")
    models.list_models(exclude=["*resnet*", "*vit*"])
    models.list_models(exclude="*")
    models.list_models(include="*resnet*", exclude="quantized*")
    models.list_models(include=[], exclude=["*resnet*"])
    models.list_models(module=models.detection, include="*fpn*", exclude=["*v2", "*320*"])
    models.list_models(models, "alexnet")
    models.list_models(models, "alexnet", "alexnet")
""")
FINDING = programs("""
    models.get_model_builder("resnet18")
    models.get_model_builder("ResNet18")
    models.get_model_builder("quantized_resnet18")
    models.get_model_builder("none")
    models.get_model_builder("")
    models.get_model_builder(None)
    models.get_model_builder(models.resnet18)
    type(models.get_model("resnet18")).__name__
    type(models.get_model("RESNET18", weights=None, num_classes=3)).__name__
    models.get_model("none")
    models.get_model("resnet18", classes=3)
    models.get_model("resnet18", weights="none")
    models.get_model("resnet18", weights=models.AlexNet_Weights.DEFAULT)
    models.get_model("resnet18", weights="AlexNet_Weights.IMAGENET1K_V1")
    models.get_model("resnet18", pretrained=False).fc.out_features
    models.get_model_weights("resnet18")
    models.get_model_weights("resnet50").DEFAULT
    [member.name for member in models.get_model_weights("resnet50")]
    list(models.get_model_weights("vit_b_16"))
    models.get_model_weights(models.quantization.resnet50)
    models.get_model_weights("quantized_resnet50")
    models.get_model_weights(models.detection.fasterrcnn_resnet50_fpn)
    models.get_model_weights("none")
    models.get_model_weights(len)
    models.get_model_weights(5)
    models.get_weight("ResNet50_Weights.IMAGENET1K_V2")
    models.get_weight("ResNet50_Weights.DEFAULT")
    models.get_weight("ResNet50_QuantizedWeights.IMAGENET1K_FBGEMM_V1")
    models.get_weight("FasterRCNN_ResNet50_FPN_Weights.COCO_V1")
    models.get_weight("Raft_Large_Weights.C_T_SKHT_V2")
    models.get_weight("ResNet50_Weights.none")
    models.get_weight("None_Weights.DEFAULT")
    models.get_weight("ResNet50_Weights")
    models.get_weight("IMAGENET1K_V2")
    models.get_weight("")
    models.get_weight("a.b.c")
    models.get_weight(5)
    str(models.ResNet50_Weights.DEFAULT), repr(models.ResNet50_Weights.DEFAULT)
    models.ResNet50_Weights.verify("IMAGENET1K_V2"), models.ResNet50_Weights.verify(None)
    models.ResNet50_Weights.verify("ResNet50_Weights.IMAGENET1K_V2")
    models.ResNet50_Weights.verify("none")
    models.ResNet50_Weights.verify(models.AlexNet_Weights.DEFAULT)
    models.ResNet50_Weights.verify(5)
    models.ResNet50_Weights["IMAGENET1K_V1"].url
    models.ResNet50_Weights.DEFAULT.value
    models.ResNet50_Weights("none")
    models.ResNet50_Weights.DEFAULT == models.ResNet50_Weights.IMAGENET1K_V2
    models.ResNet50_Weights.DEFAULT in models.ResNet50_Weights
    models.ResNet50_Weights.IMAGENET1K_V1 == models.ResNet50_Weights.IMAGENET1K_V2
    len({models.ResNet50_Weights.DEFAULT, models.ResNet50_Weights.IMAGENET1K_V2})
    __import__("copy").deepcopy(models.ResNet50_Weights.DEFAULT)
    __import__("pickle").loads(__import__("pickle").dumps(models.ResNet50_Weights.DEFAULT))
    issubclass(models.ResNet50_Weights, models.WeightsEnum)
    isinstance(models.ResNet50_Weights.DEFAULT.value, models.Weights)
    models.Weights("a", len, {"b": 1}) == models.Weights("a", len, {"b": 1})
    models.Weights("a", len, {"b": 1}) == models.Weights("a", len, {"b": 2})
    models.Weights("a", len, {"b": 1}) == models.Weights("a", sum, {"b": 1})
    models.Weights("a", len, {"b": 1}) == 5
""")
REGISTERING = programs("""
    models._api.register_model()(my_model)(); "my_model" in models.list_models()
    models._api.register_model("My_Model")(my_model); "my_model" in models.list_models()
    models._api.register_model("My_Model")(my_model); "My_Model" in models.list_models()
    models._api.register_model("other")(my_model); models.get_model("other")
    models._api.register_model("other")(my_model); models._api.register_model("other")(my_model)
    models._api.register_model("resnet18")(my_model)
    models._api.register_model("typed")(my_typed_model); models.get_model_weights("typed")
    models._api.register_model("plain")(my_model); models.get_model_weights("plain")
    models._api.register_model()(my_model) is my_model
""")


def my_model() -> int:
    return 5


def given(library: Library) -> dict[str, Any]:
    def my_typed_model(*, weights: Any = None) -> int:
        return 6

    my_typed_model.__annotations__["weights"] = library.models.ResNet50_Weights | None
    return {"my_model": my_model, "my_typed_model": my_typed_model}


@contextlib.contextmanager
def registry_kept() -> Any:
    """Both registries as they were, afterwards."""
    registered = upstream._api.BUILTIN_MODELS
    before = dict(registered)
    known = {entry.id for entry in MODELS.entries()}
    try:
        yield
    finally:
        registered.clear()
        registered.update(before)
        for entry in [entry for entry in MODELS.entries() if entry.id not in known]:
            MODELS.unregister(entry.id)


for area, texts in (("listing", LISTING), ("finding", FINDING)):
    SUITE.add(*(Cell(f"{area}/{text}", area, program(text, NAMES), printed=False) for text in texts))


def registering(text: str) -> Any:
    run = program(text, NAMES)

    def call(library: Library, inputs: dict[str, Any]) -> Any:
        with registry_kept():
            return run(library, inputs)

    return call


for text in REGISTERING:
    SUITE.add(Cell(f"registering/{text}", "registering", registering(text), given, effects=False))
MEMBERS = "[(one, one.url, facts(one.meta), preset(one.transforms())) for one in models.get_model_weights({!r})]"
for name in upstream.list_models():
    SUITE.add(Cell(f"weights/{name}", "weights", program(MEMBERS.format(name), NAMES)))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
