"""A data set hands its transform a PIL picture that is decoded when it is looked at, and nobody can tell."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from PIL import Image, ImageFile, ImageOps

from flambeau.vision import transforms as v1
from flambeau.vision.datasets import ImageFolder
from flambeau.vision.datasets.folder import pil_loader
from flambeau.vision.io import _native
from flambeau.vision.io._waiting_picture import FilePicture, open_picture
from flambeau.vision.transforms import v2

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def photograph(height: int = 90, width: int = 120) -> Image.Image:
    levels = torch.randint(0, 256, (height // 6, width // 6, 3), generator=torch.Generator().manual_seed(0))
    return Image.fromarray(levels.to(torch.uint8).numpy()).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture(autouse=True)
def _native_codecs(monkeypatch):
    if _native.LIBRARY.load() is None:
        pytest.skip(f"The image codecs were not built: {_native.LIBRARY.reason}.")
    monkeypatch.delenv("FLAMBEAU_IMAGE_CODECS", raising=False)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "a").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    photograph().save(tmp_path / "a" / "0.jpg", quality=90, exif=exif.tobytes(), dpi=(72, 72), comment=b"hello")
    photograph().save(tmp_path / "a" / "1.jpg", quality=60, progressive=True)
    photograph().convert("L").save(tmp_path / "a" / "2.jpg")
    photograph().convert("CMYK").save(tmp_path / "a" / "3.jpg")
    photograph().save(tmp_path / "a" / "4.png")
    photograph().save(tmp_path / "a" / "5.bmp")
    return tmp_path


def paths(root):
    return sorted((root / "a").iterdir())


def test_jpeg_is_what_waits(root):
    waits = [type(open_picture(path)) is FilePicture for path in paths(root)]
    assert waits == [True, True, True, False, False, False]


@pytest.mark.parametrize("number", range(6))
def test_whatever_is_asked_of_it_is_what_a_loaded_picture_says(number, root):
    path = paths(root)[number]
    for ask in (
        lambda x: (x.size, x.width, x.height, x.mode, x.getbands()),
        lambda x: x.tobytes(),
        lambda x: x.crop((3, 4, 50, 60)).tobytes(),
        lambda x: x.info,
        lambda x: dict(x.getexif()),
        lambda x: ImageOps.exif_transpose(x).size,
        lambda x: x.copy().info,
        lambda x: x.getpixel((5, 6)),
        lambda x: x.convert("HSV").tobytes(),
        lambda x: x.resize((20, 30)).tobytes(),
        lambda x: x.histogram(),
        lambda x: x.__array_interface__["data"],
        lambda x: type(x.rotate(20)),
        lambda x: v2.functional.pil_to_tensor(x).tolist(),
    ):
        assert ask(open_picture(path)) == ask(pil_loader(path))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_plain_pictures(again, root):
    twin = again(open_picture(paths(root)[0]))
    assert type(twin) is Image.Image
    assert twin == pil_loader(paths(root)[0])


def test_it_is_a_plain_picture_once_its_pixels_are_there(root):
    picture = open_picture(paths(root)[0])
    picture.putpixel((0, 0), (1, 2, 3))
    assert type(picture) is Image.Image
    assert picture.getpixel((0, 0)) == (1, 2, 3)


def test_it_equals_the_loaded_picture_from_both_sides(root):
    assert open_picture(paths(root)[0]) == pil_loader(paths(root)[0])
    assert pil_loader(paths(root)[0]) == open_picture(paths(root)[0])
    assert open_picture(paths(root)[0]) == open_picture(paths(root)[0])
    assert open_picture(paths(root)[0]) != open_picture(paths(root)[1])


def test_a_closed_picture_says_so(root):
    picture = open_picture(paths(root)[0])
    picture.close()
    with pytest.raises(ValueError, match="Operation on closed image"):
        picture.tobytes()


PIPELINES = {
    "v1": v1.Compose([v1.RandomResizedCrop(32), v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize(MEAN, STD)]),
    "v1, policies": v1.Compose([v1.RandomResizedCrop(32), v1.TrivialAugmentWide(), v1.ToTensor()]),
    "v1, evaluation": v1.Compose([v1.Resize(40), v1.CenterCrop(32), v1.ToTensor()]),
    "v2": v2.Compose(
        [v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]
    ),
    "v2, to image first": v2.Compose([v2.ToImage(), v2.RandomResizedCrop(32), v2.ToDtype(torch.float32, scale=True)]),
    "v2, to the end as PIL": v2.Compose([v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), v2.ColorJitter(0.3)]),
}


@pytest.mark.parametrize("fused", ["1", "0"])
@pytest.mark.parametrize("name", PIPELINES)
def test_transforms_give_the_same_of_a_loaded_picture(name, fused, root, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_FUSED_TRANSFORMS", fused)
    waiting = ImageFolder(root, transform=PIPELINES[name])
    loaded = ImageFolder(root, transform=PIPELINES[name], loader=pil_loader)
    for index in range(len(waiting)):
        for seed in range(4):
            torch.manual_seed(seed)
            given, _ = waiting[index]
            torch.manual_seed(seed)
            expected, _ = loaded[index]
            assert type(given) is type(expected)
            assert torch.equal(given, expected) if isinstance(given, torch.Tensor) else given == expected


def test_without_a_transform_the_picture_is_loaded(root):
    assert type(ImageFolder(root)[0][0]) is Image.Image
    assert type(ImageFolder(root, target_transform=str)[0][0]) is Image.Image


def test_another_loader_is_called(root):
    assert ImageFolder(root, transform=lambda x: x, loader=lambda path: "picture")[0][0] == "picture"


@pytest.mark.parametrize("name", PIPELINES)
def test_a_file_that_was_cut_off_is_the_error_that_pillow_raises(name, root):
    path = paths(root)[0]
    path.write_bytes(path.read_bytes()[:-500])
    dataset = ImageFolder(root, transform=PIPELINES[name])
    with pytest.raises(OSError, match="truncated"):
        dataset[0]


def test_whoever_allows_truncated_files_gets_what_pillow_makes_of_them(root, monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    path = paths(root)[0]
    path.write_bytes(path.read_bytes()[:-500])
    assert open_picture(path).tobytes() == pil_loader(path).tobytes()
    assert open_picture(path).levels((3, 4, 5, 6)).shape == (3, 5, 6)


def test_what_is_no_picture_is_pillow_s_error(tmp_path):
    (tmp_path / "x.jpg").write_bytes(b"nothing")
    with pytest.raises(OSError, match="cannot identify image file"):
        open_picture(tmp_path / "x.jpg")
    with pytest.raises(FileNotFoundError):
        open_picture(tmp_path / "y.jpg")


def test_pillow_s_bound_on_pixels_holds(root, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(Image.DecompressionBombError):
        open_picture(paths(root)[0])
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 9000)
    with warnings.catch_warnings(), pytest.raises(Image.DecompressionBombWarning):
        warnings.simplefilter("error")
        open_picture(paths(root)[0])
