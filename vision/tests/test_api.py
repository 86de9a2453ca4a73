"""Public names and signatures are upstream's, as recorded; ours may add keyword-only parameters with defaults."""

import enum
import inspect
import re
from importlib import import_module

import pytest

from flambeau.core.testing.golden import upstream_facts

# Modules that are here whole, except for these names; the lists only shrink.
WHOLE = {
    "flambeau.vision": set(),
    "flambeau.vision.io": set(),
    "flambeau.vision.models.resnet": set(),
    "flambeau.vision.models._api": set(),
    "flambeau.vision.models._utils": set(),
    "flambeau.vision.models.maxvit": set(),
    "flambeau.vision.models.optical_flow": set(),
    "flambeau.vision.models.optical_flow._utils": set(),
    "flambeau.vision.models.optical_flow.raft": set(),
    "flambeau.vision.models.swin_transformer": set(),
    "flambeau.vision.models.video": set(),
    "flambeau.vision.models.video.mvit": set(),
    "flambeau.vision.models.video.resnet": set(),
    "flambeau.vision.models.video.s3d": set(),
    "flambeau.vision.models.video.swin_transformer": set(),
    "flambeau.vision.models.vision_transformer": set(),
    "flambeau.vision.models.detection": set(),
    "flambeau.vision.models.detection._utils": set(),
    "flambeau.vision.models.detection.anchor_utils": set(),
    "flambeau.vision.models.detection.backbone_utils": set(),
    "flambeau.vision.models.detection.faster_rcnn": set(),
    "flambeau.vision.models.detection.fcos": set(),
    "flambeau.vision.models.detection.generalized_rcnn": set(),
    "flambeau.vision.models.detection.image_list": set(),
    "flambeau.vision.models.detection.keypoint_rcnn": set(),
    "flambeau.vision.models.detection.mask_rcnn": set(),
    "flambeau.vision.models.detection.retinanet": set(),
    "flambeau.vision.models.detection.roi_heads": set(),
    "flambeau.vision.models.detection.rpn": set(),
    "flambeau.vision.models.detection.ssd": set(),
    "flambeau.vision.models.detection.ssdlite": set(),
    "flambeau.vision.models.detection.transform": set(),
    "flambeau.vision.models.quantization": set(),
    "flambeau.vision.models.quantization.googlenet": set(),
    "flambeau.vision.models.quantization.inception": set(),
    "flambeau.vision.models.quantization.mobilenetv2": set(),
    "flambeau.vision.models.quantization.mobilenetv3": set(),
    "flambeau.vision.models.quantization.resnet": set(),
    "flambeau.vision.models.quantization.shufflenetv2": set(),
    "flambeau.vision.models.quantization.utils": set(),
    "flambeau.vision.models.segmentation": set(),
    "flambeau.vision.models.segmentation._utils": set(),
    "flambeau.vision.models.segmentation.deeplabv3": set(),
    "flambeau.vision.models.segmentation.fcn": set(),
    "flambeau.vision.models.segmentation.lraspp": set(),
    "flambeau.vision.ops.boxes": set(),
    "flambeau.vision.ops.feature_pyramid_network": set(),
    "flambeau.vision.ops.poolers": set(),
    "flambeau.vision.tv_tensors": set(),
    "flambeau.vision.transforms": set(),
    "flambeau.vision.transforms.autoaugment": set(),
    "flambeau.vision.transforms.functional": set(),
    "flambeau.vision.transforms.v2": set(),
    "flambeau.vision.transforms.v2.functional": set(),
    "flambeau.vision.utils": set(),
    "flambeau.vision.datasets.folder": set(),
    "flambeau.vision.datasets.samplers": set(),
    "flambeau.vision.datasets.video_utils": set(),
    "flambeau.vision.datasets.vision": set(),
    "flambeau.vision.datasets.utils": set(),
}
# Modules of which a part is here: every name that exists is compared, and these have to exist.
PARTLY = {
    "flambeau.vision.models": {"ResNet", "Weights", "get_model", "list_models", "resnet50", "wide_resnet101_2"},
    "flambeau.vision.datasets": {"CIFAR10", "CIFAR100", "DatasetFolder", "FakeData", "ImageFolder", "VisionDataset"},
    "flambeau.vision.ops": {"batched_nms", "nms"},
    "flambeau.vision.transforms._presets": {"ImageClassification", "ObjectDetection", "SemanticSegmentation"},
}  # fmt: skip
# Constants that are here with a value of our own.
OWN_VALUES = {"flambeau.vision.datasets.utils.USER_AGENT": "flambeau-core"}
TYPE_VARIABLES = {"D", "M", "T", "T_co", "V", "W"}


def recorded() -> dict[str, dict]:
    return upstream_facts("api", __file__)["modules"]


def subjects() -> list:
    """(module, name, record) of every recorded name that exists here."""
    compared = {module: names for module, names in recorded().items() if module in WHOLE or module in PARTLY}
    return [
        pytest.param(module, name, record, id=f"{module}.{name}")
        for module, names in compared.items()
        for name, record in names.items()
        if name not in TYPE_VARIABLES and hasattr(import_module(module), name)
    ]


def test_there_is_a_record():
    assert len(subjects()) > 120


@pytest.mark.parametrize("module", WHOLE)
def test_whole_modules_lack_no_name_but_those_declared(module):
    ours = import_module(module)
    assert {name for name in recorded()[module] if not hasattr(ours, name)} == WHOLE[module]


@pytest.mark.parametrize("module", PARTLY)
def test_parts_of_modules_have_the_names_they_promise(module):
    ours = import_module(module)
    assert PARTLY[module] <= set(ours.__all__)


@pytest.mark.parametrize(("module", "name", "record"), subjects())
def test_the_name_is_what_the_record_says(module, name, record):
    ours = getattr(import_module(module), name)
    if "enum" in record:
        assert list(ours.__members__) == record["enum"]
    elif f"{module}.{name}" in OWN_VALUES:
        assert ours == OWN_VALUES[f"{module}.{name}"]
    elif "value" in record:
        assert record["value"] in (repr(ours), type(ours).__name__)
    else:
        compare(ours, record.get("function") or record.get("class"))
        for method, signature in record.get("methods", {}).items():
            # Attributes of tensors keep their own descriptors: only their presence is compared.
            assert hasattr(ours, method), method
            compare(getattr(ours, method), None if signature == "property" else signature)


def compare(ours, signature: str | None) -> None:
    if signature is None:
        return
    theirs = [parameter(text) for text in split(signature)]
    mine = [describe(p) for p in inspect.signature(ours).parameters.values()]
    extra = [p for p in inspect.signature(ours).parameters.values() if p.kind is p.KEYWORD_ONLY]
    added = {p.name for p in extra if p.default is not p.empty} - {name for name, *_ in theirs}
    # A class of typed tensors takes its subclasses' metadata as further keywords.
    added |= {name for name, _ in mine if name == "**metadata"}
    unnamed = {"*", "cls"}
    assert [entry for entry in mine if entry[0] not in added] == [entry for entry in theirs if entry[0] not in unnamed]


def split(signature: str) -> list[str]:
    """The parameters in the text of a signature."""
    depth, parts = 0, [""]
    for character in signature[: signature.rindex(")")][1:] if ")" in signature else signature:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        elif depth >= 0:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def parameter(text: str) -> tuple[str, str | None]:
    """(name, default) of a parameter's text; without its annotation."""
    name = re.match(r"\**\w*", text).group()
    _, equals, default = text.partition(" = ")
    annotated = re.match(r"\**\w*:", text)
    return name, default if equals else None if annotated else (text.partition("=")[2] or None)


def describe(p: inspect.Parameter) -> tuple[str, str | None]:
    stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    if p.default is p.empty:
        return stars + p.name, None
    is_function = inspect.isfunction(p.default)
    return p.name, p.default.__name__ if is_function else repr(p.default)


def test_weights_enums_are_enums():
    from flambeau.vision.models import ResNet50_Weights

    assert issubclass(ResNet50_Weights, enum.Enum)
