"""The package itself: light to import, truthful about what it holds."""

import json
import pkgutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import flambeau.vision

ROOT = Path(__file__).parents[1]
USED_BY_THEIR_PATH = {"categories", "feature_extraction"}
LAZY = ["flambeau.vision", "flambeau.vision.models", "flambeau.vision.weights", "flambeau.vision.datasets"]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "statement",
    [
        "import flambeau.vision",
        "import flambeau.vision.models, flambeau.vision.datasets, flambeau.vision.transforms, flambeau.vision.ops",
        "from flambeau.vision import models; models.list_models()",
        "from flambeau.vision import set_image_backend; set_image_backend('PIL')",
        "from flambeau.vision.models import ResNet50_Weights; ResNet50_Weights.DEFAULT.meta['categories'][0]",
        "from flambeau.vision.models import get_weight; get_weight('ResNet50_Weights.IMAGENET1K_V2')",
        "from flambeau.vision.transforms import InterpolationMode",
    ],
)
def test_neither_torch_nor_pillow_is_imported_by(statement):
    assert run(f"{statement}; import sys; print({{'torch', 'numpy', 'PIL'}} & set(sys.modules))") == "set()"


def test_listing_models_builds_no_enum():
    listed, imported = run(
        "from flambeau.vision import models; print(len(models.list_models())); "
        "import sys; print('flambeau.vision.weights' in sys.modules)"
    ).split()
    assert (int(listed) >= 11, imported) == (True, "False")


@pytest.mark.parametrize("package", LAZY)
def test_every_listed_name_is_there_and_defined_where_it_is_listed(package):
    module = import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", ["flambeau.vision.models", "flambeau.vision.weights"])
def test_the_lazy_names_are_the_public_names_of_the_modules(package):
    module = import_module(package)
    found = {info.name for info in pkgutil.iter_modules(module.__path__) if not info.ispkg}
    own = {name for name in found if not name.startswith("_")} - USED_BY_THEIR_PATH | found & {"_api"}
    public = {name for submodule in own for name in import_module(f"{package}.{submodule}").__all__}
    assert set(module.__all__) == public


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert flambeau.vision.__version__ == project["version"]


def test_the_manifest_is_up_to_date():
    done = subprocess.run(
        [sys.executable, "-m", "flambeau.core.manifest", "build", "flambeau.vision", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_record_of_the_manifest_is_long():
    manifest = json.loads((ROOT / "src/flambeau/vision/flambeau_plugin.json").read_text())
    assert max(len(json.dumps(record)) for record in manifest["weights"]) < 1200


def test_image_backends_are_remembered_and_checked():
    assert flambeau.vision.get_image_backend() == "PIL"
    with pytest.raises(ValueError, match="Invalid image backend 'pil'"):
        flambeau.vision.set_image_backend("pil")
    flambeau.vision.set_image_backend("accimage")
    try:
        assert flambeau.vision.get_image_backend() == "accimage"
    finally:
        flambeau.vision.set_image_backend("PIL")


def test_video_backends_are_remembered_and_checked():
    assert flambeau.vision.get_video_backend() == "pyav"
    with pytest.raises(ValueError, match="Invalid video backend 'ffmpeg'"):
        flambeau.vision.set_video_backend("ffmpeg")
    flambeau.vision.set_video_backend("video_reader")
    try:
        assert flambeau.vision.get_video_backend() == "video_reader"
    finally:
        flambeau.vision.set_video_backend("pyav")


def test_upstreams_switch_for_a_warning_that_is_gone_does_nothing():
    assert flambeau.vision.disable_beta_transforms_warning() is None
