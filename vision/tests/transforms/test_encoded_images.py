"""An image that is a file still goes through transforms like the image that it is, and is decoded as late as may be."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from PIL import Image as PillowImage
from torch.utils.data import DataLoader

from flambeau.core.registry import TENSOR_TYPES
from flambeau.vision import transforms as v1
from flambeau.vision import tv_tensors
from flambeau.vision.io import ImageError, decode_image, encode_png, image
from flambeau.vision.transforms import v2
from flambeau.vision.transforms._presets import ImageClassification, ObjectDetection, SemanticSegmentation
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.tv_tensors import EncodedImage, Image

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def file_of(
    height: int = 90, width: int = 120, format: str = "JPEG", seed: int = 0, coarse: int = 8, **options: object
) -> torch.Tensor:
    sides = -(-height // coarse), -(-width // coarse)
    levels = torch.randint(0, 256, (3, *sides), generator=torch.Generator().manual_seed(seed))
    smooth = F.resize(levels.to(torch.uint8), [height, width])
    file = io.BytesIO()
    PillowImage.fromarray(smooth.permute(1, 2, 0).contiguous().numpy()).save(file, format, **options)
    return torch.from_numpy(np.frombuffer(file.getvalue(), np.uint8).copy())


FILES = {
    "jpeg": file_of(),
    "progressive jpeg": file_of(progressive=True),
    "jpeg of odd size": file_of(77, 51, quality=60),
    "png": file_of(format="PNG"),
    "webp": file_of(format="WEBP"),
}

TO_FLOAT = v2.ToDtype(torch.float32, scale=True)

PIPELINES = {
    "classification": [v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), TO_FLOAT, v2.Normalize(MEAN, STD)],
    "with TrivialAugment": [v2.RandomResizedCrop(32), v2.RandomHorizontalFlip(), v2.TrivialAugmentWide(), TO_FLOAT],
    "with ToImage": [v2.ToImage(), v2.RandomResizedCrop(32), TO_FLOAT],
    "evaluation": [v2.Resize(40), v2.CenterCrop(32), TO_FLOAT, v2.Normalize(MEAN, STD)],
    "crop, then resize": [v2.RandomCrop(40), v2.Resize(20)],
    "padded crop": [v2.RandomCrop(48, padding=4)],
    "a middle that grows": [v2.CenterCrop(130)],
    "colours": [v2.ColorJitter(0.4, 0.4, 0.4, 0.1), v2.RandomGrayscale(0.5)],
    "flips": [v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(), v2.ToImage()],
    "several crops": [v2.FiveCrop(30)],
    "policies": [v2.RandAugment()],
    "one of two": [v2.RandomChoice([v2.RandomCrop(30), v2.CenterCrop(30)]), v2.ToImage()],
    "perhaps": [v2.RandomApply([v2.Grayscale(3)]), v2.ToImage()],
    "a function": [v2.Lambda(lambda x: x[..., ::2])],
    "to PIL and back": [v2.ToPILImage(), v2.PILToTensor()],
    "plain": [v2.ToPureTensor()],
}


def leaves(value):
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("fused", ["1", "0"])
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("name", FILES)
def test_pipelines_give_what_they_give_of_the_decoded_image(name, pipeline, fused, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_FUSED_TRANSFORMS", fused)
    transform = v2.Compose(PIPELINES[pipeline])
    for seed in range(6):
        torch.manual_seed(seed)
        expected = leaves(transform(Image(decode_image(FILES[name], "RGB"))))
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        given = leaves(transform(EncodedImage(FILES[name])))
        assert torch.equal(torch.get_rng_state(), state), "other random numbers were drawn"
        for ours, theirs in zip(given, expected, strict=True):
            assert type(ours) is type(theirs)
            assert torch.equal(ours, theirs)


def test_boxes_and_labels_go_along():
    transform = v2.Compose(
        [
            v2.RandomIoUCrop(),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.SanitizeBoundingBoxes(),
        ]
    )
    boxes = tv_tensors.BoundingBoxes([[5, 5, 50, 60], [30, 20, 110, 80]], format="XYXY", canvas_size=(90, 120))
    for seed in range(10):
        results = []
        for picture in (Image(decode_image(FILES["jpeg"])), EncodedImage(FILES["jpeg"])):
            torch.manual_seed(seed)
            results.append(transform({"image": picture, "boxes": boxes, "labels": torch.arange(2)}))
        expected, given = results
        assert type(given["image"]) is Image
        assert all(torch.equal(given[key], expected[key]) for key in expected)


def test_plain_tensors_beside_it_are_left_alone():
    mask = torch.arange(6)
    out, same = v2.Compose([v2.RandomResizedCrop(8), v2.ToDtype(torch.float32, scale=True)])(
        EncodedImage(FILES["jpeg"]), mask
    )
    assert out.shape == (3, 8, 8)
    assert same is mask


@pytest.fixture
def decoded_regions(monkeypatch):
    """Which regions are decoded."""
    regions = []
    decode = image.decode_measured

    def recorded(data, head, region, min_size):
        regions.append(region)
        return decode(data, head, region, min_size)

    monkeypatch.setattr(image, "decode_measured", recorded)
    return regions


@pytest.mark.parametrize("fused", ["1", "0"])
def test_only_what_the_crop_holds_is_decoded(fused, decoded_regions, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_FUSED_TRANSFORMS", fused)
    transform = v2.Compose([v2.RandomResizedCrop(16), v2.ToDtype(torch.float32, scale=True)])
    torch.manual_seed(3)
    _, params = transform(EncodedImage(FILES["jpeg"]), return_params=True)
    drawn = params[0]["params"]
    assert decoded_regions == [(drawn["top"], drawn["left"], drawn["height"], drawn["width"])]


def test_cuts_of_cuts_are_decoded_once(decoded_regions):
    out = v2.Compose([v2.CenterCrop((60, 80)), v2.CenterCrop(20), v2.ToImage()])(EncodedImage(FILES["jpeg"]))
    assert decoded_regions == [(35, 50, 20, 20)]
    assert torch.equal(out, decode_image(FILES["jpeg"])[:, 35:55, 50:70])


def test_an_image_that_nothing_happens_to_stays_a_file(decoded_regions):
    encoded = EncodedImage(FILES["jpeg"])
    assert v2.Compose([v2.Identity(), v2.RandomHorizontalFlip(p=0.0), v2.CenterCrop(50)])(encoded).canvas_size == (
        50,
        50,
    )
    assert decoded_regions == []


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.get_size(x),
        lambda x: F.get_dimensions(x),
        lambda x: F.get_num_channels(x),
        lambda x: F.crop(x, -3, 5, 20, 200),
        lambda x: F.resized_crop(x, 3, 5, 20, 30, [8, 9]),
        lambda x: F.resize(x, [20, 30]),
        lambda x: F.horizontal_flip(x),
        lambda x: F.adjust_brightness(x, 0.7),
        lambda x: F.normalize(F.to_dtype(x, torch.float32, scale=True), MEAN, STD),
        lambda x: F.rotate(x, 30),
        lambda x: F.ten_crop(x, 20)[7],
        lambda x: F.to_image(x),
    ],
)
def test_functionals_take_it_for_the_image(call):
    given, expected = call(EncodedImage(FILES["jpeg"])), call(Image(decode_image(FILES["jpeg"])))
    assert type(given) is type(expected)
    assert torch.equal(torch.as_tensor(given), torch.as_tensor(expected))


@pytest.mark.parametrize(
    "transform",
    [
        v1.Resize(40),
        v1.RandomResizedCrop(30),
        v1.Compose([v1.RandomCrop(50), v1.ColorJitter(0.3), v1.RandomHorizontalFlip()]),
        v1.Compose([v1.RandomResizedCrop(30), v1.ConvertImageDtype(torch.float32), v1.Normalize(MEAN, STD)]),
        v1.ConvertImageDtype(torch.float32),
        ImageClassification(crop_size=32, resize_size=40),
        ObjectDetection(),
        SemanticSegmentation(resize_size=40),
    ],
)
def test_the_first_generation_and_presets_take_it_as_well(transform):
    torch.manual_seed(0)
    given = transform(EncodedImage(FILES["jpeg"]))
    torch.manual_seed(0)
    assert torch.equal(given, transform(decode_image(FILES["jpeg"])))


def test_a_draft_is_close_and_of_the_same_size():
    file = file_of(320, 480, coarse=40)
    transform = v2.Compose([v2.RandomResizedCrop(24, scale=(0.5, 1.0)), v2.ToDtype(torch.float32, scale=True)])
    for seed in range(5):
        torch.manual_seed(seed)
        exact = transform(EncodedImage(file))
        torch.manual_seed(seed)
        draft = transform(EncodedImage(file, draft=True))
        assert draft.shape == exact.shape
        assert (draft - exact).abs().mean() < 0.04


def test_a_draft_is_never_smaller_than_what_is_asked_for():
    encoded = EncodedImage(file_of(320, 480), draft=True)
    assert encoded.levels(least=(160, 100)).shape == (3, 160, 240)
    assert encoded.levels(least=(161, 100)).shape == (3, 320, 480)
    assert encoded.levels(least=(10, 10)).shape == (3, 40, 60)
    assert encoded.decode().shape == (3, 320, 480)


def test_the_camera_s_orientation_is_applied_on_request():
    turned = PillowImage.Exif()
    turned[0x0112] = 6
    file = file_of(40, 70, exif=turned.tobytes())
    assert EncodedImage(file).canvas_size == (40, 70)
    upright = EncodedImage(file, apply_exif_orientation=True)
    assert upright.canvas_size == (70, 40)
    assert torch.equal(upright.decode(), decode_image(file, apply_exif_orientation=True))
    whole = decode_image(file, apply_exif_orientation=True)
    assert torch.equal(upright.crop(3, 4, 30, 20).decode(), whole[:, 3:33, 4:24])


def test_modes_are_those_of_decode_image():
    assert EncodedImage(FILES["jpeg"], mode="gray").decode().shape == (1, 90, 120)
    assert EncodedImage(FILES["jpeg"], mode="gray").channels == 1
    assert EncodedImage(encode_png(torch.zeros(4, 5, 6, dtype=torch.uint8)), mode="unchanged").channels == 4


def test_it_is_read_from_a_path_and_made_of_bytes(tmp_path):
    path = tmp_path / "x.jpg"
    path.write_bytes(FILES["jpeg"].numpy().tobytes())
    for encoded in (EncodedImage.read(path), EncodedImage(path.read_bytes())):
        assert torch.equal(encoded, FILES["jpeg"])


def test_what_is_no_image_is_refused_at_once():
    with pytest.raises(ImageError, match="Unsupported image file"):
        EncodedImage(b"no picture at all")


def test_a_crop_beyond_the_image_is_refused():
    with pytest.raises(ValueError, match="not inside of the image of 90 x 120"):
        EncodedImage(FILES["jpeg"]).crop(80, 0, 20, 20)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), torch.clone])
def test_copies_are_cut_likewise(again):
    encoded = EncodedImage(FILES["jpeg"], draft=True).crop(1, 2, 30, 40)
    twin = again(encoded)
    assert type(twin) is EncodedImage
    assert (twin.region, twin.draft) == ((1, 2, 30, 40), True)
    assert torch.equal(twin.decode(), encoded.decode())


class Files(torch.utils.data.Dataset):
    def __init__(self, transform=None):
        self.transform = transform

    def __len__(self):
        return 4

    def __getitem__(self, index):
        encoded = EncodedImage(file_of(seed=index))
        return encoded if self.transform is None else self.transform(encoded)


def test_a_loader_gives_lists_of_files_or_batches_of_pixels():
    (batch,) = DataLoader(Files(), batch_size=4)
    assert [type(item) for item in batch] == [EncodedImage] * 4
    transform = v2.Compose([v2.RandomResizedCrop(8), v2.ToDtype(torch.float32, scale=True)])
    (batch,) = DataLoader(Files(transform), batch_size=4)
    assert batch.shape == (4, 3, 8, 8)


def test_it_is_a_registered_type():
    assert TENSOR_TYPES.resolve("vision/encoded-image") is EncodedImage
