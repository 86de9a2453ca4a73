"""Datasets of stereo matching: two pictures of one scene, and the disparity between them.

References:
    Scharstein et al. 2014, High-Resolution Stereo Datasets with Subpixel-Accurate Ground Truth.
    doi:10.1007/978-3-319-11752-2_3
    Others at the classes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, Gate, prepare_dataset, register_dataset
from flambeau.vision.datasets._flow_files import read_disparity_png, read_pfm
from flambeau.vision.datasets._pictures import IMAGE
from flambeau.vision.datasets._placed import require_placed
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = [
    "CREStereo",
    "CarlaStereo",
    "ETH3DStereo",
    "FallingThingsStereo",
    "InStereo2k",
    "Kitti2012Stereo",
    "Kitti2015Stereo",
    "Middlebury2014Stereo",
    "SceneFlowStereo",
    "SintelStereo",
    "StereoMatchingDataset",
]

_Disparity = NDArray[np.float32]
_Valid = NDArray[np.bool_]
_Read = tuple[_Disparity | None, _Valid | None]
_RIGHT = Field("right", "image", shape=(3, "H", "W"), dtype="uint8")
_DISPARITY = Field("disparity", "tensor", shape=(1, "H", "W"), dtype="float32", optional=True)
_MASK = Field("valid", "tensor", shape=("H", "W"), dtype="bool", optional=True)


def _facts(name: str, homepage: str, license: str, citation: str, description: str, **more: Any) -> DatasetInfo:
    """The facts of one dataset; `mask` says whether items have a place for where disparity is valid."""
    schema = (IMAGE, _RIGHT, _DISPARITY, *((_MASK,) if more.pop("mask", False) else ()))
    by_hand = Gate("manual", homepage, "Unpack it as the class's documentation says.")
    return DatasetInfo(
        name=name,
        task="stereo-matching",
        schema=schema,
        license=license,
        citation=citation,
        homepage=homepage,
        gated=None if more.get("files") else by_hand,
        description=description,
        **more,
    )


class StereoMatchingDataset(VisionDataset):
    """Base of datasets of stereo matching.

    Args:
        root: folder that holds the dataset's own.
        transforms: called with (pictures, disparities, valids), each a pair of left and right, returns as many.

    Items are (left PIL image in RGB, right PIL image in RGB, disparity), where disparity is a NumPy array [1, H, W],
    float32, in pixels of the left picture; with a fourth part, valid [H, W] bool, where the dataset or the transforms
    have one.
    """

    _has_built_in_disparity_mask: ClassVar[bool] = False

    def __init__(self, root: str | Path, transforms: Callable[..., Any] | None = None) -> None:
        super().__init__(root)
        self.transforms = transforms
        self._images: list[tuple[str, str]] = []
        self._disparities: list[tuple[str | None, str | None]] = []

    def _read_img(self, path: str) -> Any:
        return default_loader(path)

    def _read_disparity(self, path: str) -> _Read:
        """Disparity of one picture and, where it is told, where it is valid."""
        raise NotImplementedError(f"{type(self).__name__} has to define _read_disparity(path).")

    def _add(self, left: list[str], right: list[str], *disparities: list[str]) -> None:
        """Add items by sorted paths; disparities are those of the left, or of both."""
        unlike = [len(paths) for paths in (right, *disparities) if len(paths) != len(left)]
        if unlike:
            raise ValueError(
                f"{self.root} has {len(left)} left pictures but {unlike[0]} of what belongs to them; unpack it anew."
            )
        none: list[str | None] = [None] * len(left)
        lefts, rights, *_ = (*disparities, none, none)
        self._images += zip(left, right, strict=True)
        self._disparities += zip(lefts, rights, strict=True)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        """(left, right, disparity) or (left, right, disparity, valid) number `index`, transformed."""
        pictures: Any = tuple(self._read_img(path) for path in self._images[index])
        read = [(None, None) if path is None else self._read_disparity(path) for path in self._disparities[index]]
        disparities: Any
        valids: Any
        disparities, valids = zip(*read, strict=True)
        if self.transforms is not None:
            pictures, disparities, valids = self.transforms(pictures, disparities, valids)
        parts = (*pictures, disparities[0])
        return (*parts, valids[0]) if self._has_built_in_disparity_mask or valids[0] is not None else parts

    def __len__(self) -> int:
        return len(self._images)


def _files(folder: Path, pattern: str) -> list[str]:
    return sorted(str(path) for path in folder.glob(pattern))


def _pfm(path: str) -> _Read:
    return np.abs(read_pfm(path)), None


_CARLA = _facts(
    "carlastereo",
    "https://github.com/gengshan-y/high-res-stereo",
    "unknown; cite the paper",
    "@inproceedings{yang2019hierarchical, author={Yang, Gengshan and others}, title={Hierarchical Deep Stereo Matching "
    "on High-resolution Images}, booktitle={CVPR}, year={2019}}",
    "Rendered streets of high resolution.",
)


@register_dataset(info=_CARLA)
class CarlaStereo(StereoMatchingDataset):
    """Rendered streets of high resolution, from the simulator CARLA.

    Args:
        root: folder that holds `carla-highres/trainingF`.
        transforms: as for `StereoMatchingDataset`.

    Items as `StereoMatchingDataset`.

    Raises:
        DatasetMissingError: the folder is missing.

    References:
        Yang et al. 2019, arXiv:1912.06704
    """

    def __init__(self, root: str | Path, transforms: Callable[..., Any] | None = None) -> None:
        super().__init__(root, transforms)
        folder = require_placed(_CARLA, root, "carla-highres/trainingF") / "carla-highres/trainingF"
        self._add(*(_files(folder, f"*/{name}") for name in ("im0.png", "im1.png", "disp0GT.pfm", "disp1GT.pfm")))

    def _read_disparity(self, path: str) -> _Read:
        return _pfm(path)


def _kitti_facts(year: str, citation: str) -> DatasetInfo:
    return _facts(
        f"kitti{year}stereo",
        f"https://www.cvlibs.net/datasets/kitti/eval_{'stereo_flow' if year == '2012' else 'scene_flow'}.php",
        "CC-BY-NC-SA-3.0",
        citation,
        "Photographs from a car with disparity.",
        splits=("train", "test"),
        mask=True,
    )


_KITTI_2012 = _kitti_facts(
    "2012",
    "@inproceedings{geiger2012ready, author={Geiger, Andreas and others}, title={Are we ready for Autonomous Driving? "
    "The KITTI Vision Benchmark Suite}, booktitle={CVPR}, year={2012}}",
)
_KITTI_2015 = _kitti_facts(
    "2015",
    "@inproceedings{menze2015object, author={Menze, Moritz and Geiger, Andreas}, title={Object Scene Flow for "
    "Autonomous Vehicles}, booktitle={CVPR}, year={2015}}",
)


@register_dataset(info=_KITTI_2012)
class Kitti2012Stereo(StereoMatchingDataset):
    """194 pairs of photographs from a car with disparity (0 where unknown), and 195 without.

    Args:
        root: folder that holds `Kitti2012` with `training` and `testing`.
        split: "train" or "test".
        transforms: as for `StereoMatchingDataset`.

    Items as `StereoMatchingDataset`, with valid, which is None; disparity is None for the test.

    Raises:
        DatasetMissingError: the folder is missing.

    References:
        Geiger et al. 2012, doi:10.1109/CVPR.2012.6248074
    """

    _has_built_in_disparity_mask = True

    def __init__(self, root: str | Path, split: str = "train", transforms: Callable[..., Any] | None = None) -> None:
        super().__init__(root, transforms)
        part = {"train": "training", "test": "testing"}[verify_str_arg(split, "split", ("train", "test"))]
        folder = require_placed(_KITTI_2012, root, f"Kitti2012/{part}/colored_0") / "Kitti2012" / part
        names = ("colored_0", "colored_1", "disp_noc") if split == "train" else ("colored_0", "colored_1")
        self._add(*(_files(folder / name, "*_10.png") for name in names))

    def _read_disparity(self, path: str) -> _Read:
        return read_disparity_png(path, 256), None


@register_dataset(info=_KITTI_2015)
class Kitti2015Stereo(StereoMatchingDataset):
    """200 pairs of photographs from a car with disparity (0 where unknown), and 200 without.

    Args:
        root: folder that holds `Kitti2015` with `training` and `testing`.
        split: "train" or "test".
        transforms: as for `StereoMatchingDataset`.

    Items as `StereoMatchingDataset`, with valid, which is None; disparity is None for the test.

    Raises:
        DatasetMissingError: the folder is missing.

    References:
        Menze and Geiger 2015, doi:10.1109/CVPR.2015.7298925
    """

    _has_built_in_disparity_mask = True

    def __init__(self, root: str | Path, split: str = "train", transforms: Callable[..., Any] | None = None) -> None:
        super().__init__(root, transforms)
        part = {"train": "training", "test": "testing"}[verify_str_arg(split, "split", ("train", "test"))]
        folder = require_placed(_KITTI_2015, root, f"Kitti2015/{part}/image_2") / "Kitti2015" / part
        names = ("image_2", "image_3", "disp_occ_0", "disp_occ_1") if split == "train" else ("image_2", "image_3")
        # The published archive has a second moment (_11) of each scene too, without disparity.
        self._add(*(_files(folder / name, "*_10.png") for name in names))

    def _read_disparity(self, path: str) -> _Read:
        return read_disparity_png(path, 256), None


_BASE = "https://vision.middlebury.edu/stereo/data/scenes2014/zip"
_SCENES = {
    "train": (
        "Adirondack", "Jadeplant", "Motorcycle", "Piano", "Pipes", "Playroom", "Playtable", "Recycle", "Shelves",
        "Vintage",
    ),
    "additional": (
        "Backpack", "Bicycle1", "Cable", "Classroom1", "Couch", "Flowers", "Mask", "Shopvac", "Sticks", "Storage",
        "Sword1", "Sword2", "Umbrella",
    ),
    "test": (
        "Plants", "Classroom2E", "Classroom2", "Australia", "DjembeL", "CrusadeP", "Crusade", "Hoops", "Bicycle2",
        "Staircase", "Newkuba", "AustraliaP", "Djembe", "Livingroom", "Computer",
    ),
}  # fmt: skip
_CALIBRATIONS = {"perfect": ("perfect",), "imperfect": ("imperfect",), "both": ("perfect", "imperfect"), None: ()}
_MIDDLEBURY = _facts(
    "middlebury2014stereo",
    "https://vision.middlebury.edu/stereo/data/scenes2014/",
    "unknown; cite the paper",
    "@inproceedings{scharstein2014high, author={Scharstein, Daniel and others}, title={High-Resolution Stereo Datasets "
    "with Subpixel-Accurate Ground Truth}, booktitle={GCPR}, year={2014}}",
    "Photographs of rooms of high resolution with disparity.",
    splits=("train perfect", "train imperfect", "additional perfect", "additional imperfect", "test"),
    files=(
        *(
            DatasetFile(
                url=f"{_BASE}/{scene}-{calibration}.zip",
                path=f"Middlebury2014/{split}/{scene}-{calibration}.zip",
                extract=True,
                contents=(Content(f"Middlebury2014/{split}/{scene}-{calibration}"),),
                splits=(f"{split} {calibration}",),
            )
            for split in ("train", "additional")
            for scene in _SCENES[split]
            for calibration in ("perfect", "imperfect")
        ),
        DatasetFile(
            url="https://vision.middlebury.edu/stereo/submit3/zip/MiddEval3-data-F.zip",
            path="Middlebury2014/MiddEval3-data-F.zip",
            extract=True,
            contents=(Content("Middlebury2014/MiddEval3/testF"),),
            splits=("test",),
        ),
    ),
    mask=True,
)


@register_dataset(info=_MIDDLEBURY)
class Middlebury2014Stereo(StereoMatchingDataset):
    """38 rooms of about six megapixels with disparity of the accuracy of parts of a pixel.

    Args:
        root: folder that holds, or shall hold, `Middlebury2014`.
        split: "train" (10 rooms), "additional" (13) or "test" (15, no disparity).
        calibration: "perfect", "imperfect" (pictures are off by a few rows) or "both"; None for the test.
        use_ambient_views: the right picture is one of three at random, two of which have another exposure or light.
        transforms: as for `StereoMatchingDataset`.
        download: fetch what is not in place. The owner states no checksums.

    Items as `StereoMatchingDataset`, with valid; disparity is 0 where it is not; both are None for the test.

    Raises:
        ValueError: there is no such split, or it has no such calibration.
        DatasetMissingError: files are missing, and `download` is False.

    References:
        Scharstein et al. 2014, doi:10.1007/978-3-319-11752-2_3
    """

    _has_built_in_disparity_mask = True
    splits: ClassVar[dict[str, list[str]]] = {split: list(scenes) for split, scenes in _SCENES.items()}

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        calibration: str | None = "perfect",
        use_ambient_views: bool = False,
        transforms: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transforms)
        self.split = verify_str_arg(split, "split", _SCENES)
        self.use_ambient_views = use_ambient_views
        if calibration not in _CALIBRATIONS or (calibration is None) != (split == "test"):
            expected = "None" if split == "test" else "'perfect', 'imperfect' or 'both'"
            raise ValueError(f"calibration is {calibration!r}, expected {expected} for the split {split!r}.")
        needed = [f"{split} {kind}" for kind in _CALIBRATIONS[calibration]] or ["test"]
        base = Path(root).expanduser() / "Middlebury2014"
        if split == "test" and (base / "test").is_dir():
            folder = base / "test"  # where upstream moves them
        else:
            prepare_dataset(_MIDDLEBURY, root, download=download, splits=needed)
            folder = base / ("MiddEval3/testF" if split == "test" else split)
        suffixes = [f"-{kind}" for kind in _CALIBRATIONS[calibration]] or [""]
        for scene in (folder / f"{name}{suffix}" for name in sorted(_SCENES[split]) for suffix in suffixes):
            if scene.is_dir():
                names = ("im0.png", "im1.png") if split == "test" else ("im0.png", "im1.png", "disp0.pfm", "disp1.pfm")
                self._add(*([str(scene / name)] for name in names))

    def _read_img(self, path: str) -> Any:
        picture = Path(path)
        if self.use_ambient_views and picture.name == "im1.png":
            views = [view for name in ("im1E.png", "im1L.png") if (view := picture.with_name(name)).exists()]
            picture = random.choice([*views, picture])  # Upstream: of Python's generator, in this order.
        return super()._read_img(str(picture))

    def _read_disparity(self, path: str) -> _Read:
        disparity = np.abs(read_pfm(path))
        disparity[np.isinf(disparity)] = 0
        return disparity, disparity[0] > 0


_CRE = _facts(
    "crestereo",
    "https://github.com/megvii-research/CREStereo",
    "unknown; cite the paper",
    "@inproceedings{li2022practical, author={Li, Jiankun and others}, title={Practical Stereo Matching via Cascaded "
    "Recurrent Network with Adaptive Correlation}, booktitle={CVPR}, year={2022}}",
    "Rendered shapes of four kinds.",
    mask=True,
)


@register_dataset(info=_CRE)
class CREStereo(StereoMatchingDataset):
    """200,000 pairs of rendered shapes with thin parts, reflections and holes.

    Args:
        root: folder that holds `CREStereo` with `shapenet`, `reflective`, `tree` and `hole`.
        transforms: as for `StereoMatchingDataset`.

    Items as `StereoMatchingDataset`, with valid, which is None.

    Raises:
        DatasetMissingError: a folder is missing.

    References:
        Li et al. 2022, arXiv:2203.11483
    """

    _has_built_in_disparity_mask = True

    def __init__(self, root: str | Path, transforms: Callable[..., Any] | None = None) -> None:
        super().__init__(root, transforms)
        parts = [f"CREStereo/{name}" for name in ("shapenet", "reflective", "tree", "hole")]
        base = require_placed(_CRE, root, *parts)
        ends = ("_left.jpg", "_right.jpg", "_left.disp.png", "_right.disp.png")
        for part in parts:
            self._add(*(_files(base / part, f"*{end}") for end in ends))

    def _read_disparity(self, path: str) -> _Read:
        return read_disparity_png(path, 32), None


_FALLING = _facts(
    "fallingthingsstereo",
    "https://research.nvidia.com/publication/2018-06_falling-things-synthetic-dataset-3d-object-detection-and-pose-estimation",
    "unknown; stated where it is fetched",
    "@inproceedings{tremblay2018falling, author={Tremblay, Jonathan and To, Thang and Birchfield, Stan}, "
    "title={Falling Things: A Synthetic Dataset for 3D Object Detection and Pose Estimation}, "
    "booktitle={CVPR Workshops}, year={2018}}",
    "Rendered household things that fall.",
)


@register_dataset(info=_FALLING)
class FallingThingsStereo(StereoMatchingDataset):
    """60,000 pairs of rendered household things that fall, alone or several at once.

    Args:
        root: folder that holds `FallingThings` with `single` or `mixed`.
        variant: "single", "mixed" or "both".
        transforms: as for `StereoMatchingDataset`.

    Items as `StereoMatchingDataset`; disparity = 6 cm x focal length x 100 / depth.

    Raises:
        DatasetMissingError: a folder is missing.

    References:
        Tremblay et al. 2018, arXiv:1804.06534
    """

    def __init__(self, root: str | Path, variant: str = "single", transforms: Callable[..., Any] | None = None) -> None:
        super().__init__(root, transforms)
        verify_str_arg(variant, "variant", ("single", "mixed", "both"))
        depths = {"single": "*/*", "mixed": "*"}
        for name in depths if variant == "both" else (variant,):
            folder = require_placed(_FALLING, root, f"FallingThings/{name}") / "FallingThings" / name
            ends = ("left.jpg", "right.jpg", "left.depth.png", "right.depth.png")
            self._add(*(_files(folder, f"{depths[name]}/*.{end}") for end in ends))

    def _read_disparity(self, path: str) -> _Read:
        settings = json.loads(Path(path).with_name("_camera_settings.json").read_text(encoding="utf-8"))
        focal_length = settings["camera_settings"][0]["intrinsic_settings"]["fx"]
        depth = read_disparity_png(path, 1)
        with np.errstate(divide="ignore"):  # no depth, infinite disparity
            return (6 * focal_length * 100 / depth).astype(np.float32), None


_SCENE_FLOW = _facts(
    "sceneflowstereo",
    "https://lmb.informatik.uni-freiburg.de/resources/datasets/SceneFlowDatasets.en.html",
    "research use, not commercial",
    "@inproceedings{mayer2016large, author={Mayer, Nikolaus and others}, title={A Large Dataset to Train Convolutional "
    "Networks for Disparity, Optical Flow, and Scene Flow Estimation}, booktitle={CVPR}, year={2016}}",
    "Rendered things, drives and creatures with exact disparity.",
)
# How many folders are between the pass and the camera.
_DEPTHS = {"FlyingThings3D": "*/*/*", "Driving": "*/*/*", "Monkaa": "*"}


@register_dataset(info=_SCENE_FLOW)
class SceneFlowStereo(StereoMatchingDataset):
    """39,000 pairs of rendered things, drives and creatures, 960x540 pixels, with exact disparity.

    Args:
        root: folder that holds `SceneFlow` with a folder of the variant's name.
        variant: "FlyingThings3D", "Driving" or "Monkaa".
        pass_name: "clean", "final" or "both".
        transforms: as for `StereoMatchingDataset`.

    Items as `StereoMatchingDataset`.

    Raises:
        DatasetMissingError: a folder is missing.

    References:
        Mayer et al. 2016, arXiv:1512.02134
    """

    def __init__(
        self,
        root: str | Path,
        variant: str = "FlyingThings3D",
        pass_name: str = "clean",
        transforms: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(root, transforms)
        depth = _DEPTHS[verify_str_arg(variant, "variant", _DEPTHS)]
        verify_str_arg(pass_name, "pass_name", ("clean", "final", "both"))
        base = f"SceneFlow/{variant}"
        for name in ("clean", "final") if pass_name == "both" else (pass_name,):
            frames = f"frames_{name}pass"
            folder = require_placed(_SCENE_FLOW, root, f"{base}/{frames}", f"{base}/disparity") / base
            pictures = [_files(folder / frames, f"{depth}/{side}/*.png") for side in ("left", "right")]
            disparities = [_files(folder / "disparity", f"{depth}/{side}/*.pfm") for side in ("left", "right")]
            self._add(*pictures, *disparities)

    def _read_disparity(self, path: str) -> _Read:
        return _pfm(path)


_SINTEL = _facts(
    "sintelstereo",
    "http://sintel.is.tue.mpg.de/stereo",
    "CC-BY-3.0 (the film)",
    "@inproceedings{butler2012naturalistic, author={Butler, Daniel J. and others}, title={A naturalistic open source "
    "movie for optical flow evaluation}, booktitle={ECCV}, year={2012}}",
    "Frames of an animated film with exact disparity.",
    mask=True,
)


@register_dataset(info=_SINTEL)
class SintelStereo(StereoMatchingDataset):
    """1,064 pairs of frames of an animated film with exact disparity.

    Args:
        root: folder that holds `Sintel/training`.
        pass_name: "final" (with blur and fog), "clean" or "both".
        transforms: as for `StereoMatchingDataset`.

    Items as `StereoMatchingDataset`, with valid: what neither camera's view hides.

    Raises:
        DatasetMissingError: a folder is missing.

    References:
        Butler et al. 2012, doi:10.1007/978-3-642-33783-3_44
    """

    _has_built_in_disparity_mask = True

    def __init__(
        self, root: str | Path, pass_name: str = "final", transforms: Callable[..., Any] | None = None
    ) -> None:
        super().__init__(root, transforms)
        verify_str_arg(pass_name, "pass_name", ("final", "clean", "both"))
        for name in ("final", "clean") if pass_name == "both" else (pass_name,):
            folders = (f"{name}_left", f"{name}_right", "disparities")
            needed = (*folders, "occlusions", "outofframe")
            base = require_placed(_SINTEL, root, *(f"Sintel/training/{folder}" for folder in needed))
            self._add(*(_files(base / "Sintel/training" / folder, "*/*.png") for folder in folders))

    def _read_disparity(self, path: str) -> _Read:
        picture = Path(path)
        red, green, blue = np.moveaxis(np.asarray(default_loader(path), dtype=np.float32), -1, 0)
        training = picture.parents[2]
        hidden = [training / name / picture.parent.name / picture.name for name in ("occlusions", "outofframe")]
        valid = np.logical_and(*(np.asarray(_grey(mask)) == 0 for mask in hidden))
        return (red * 4 + green / 2**6 + blue / 2**14)[None], valid


def _grey(path: str | Path) -> Image.Image:
    with Image.open(path) as picture:
        return picture.convert("L")


_IN_STEREO = _facts(
    "instereo2k",
    "https://github.com/YuhuaXu/StereoDataset",
    "unknown; cite the paper",
    "@article{bao2020instereo2k, author={Bao, Wei and others}, title={InStereo2K: a large real dataset for stereo "
    "matching in indoor scenes}, journal={Science China Information Sciences}, year={2020}}",
    "Photographs of rooms with disparity.",
    splits=("train", "test"),
)


@register_dataset(info=_IN_STEREO)
class InStereo2k(StereoMatchingDataset):
    """2,050 pairs of photographs of rooms, 1080x860 pixels, with disparity.

    Args:
        root: folder that holds `InStereo2k` with `train` and `test`.
        split: "train" or "test".
        transforms: as for `StereoMatchingDataset`.

    Items as `StereoMatchingDataset`.

    Raises:
        DatasetMissingError: the folder is missing.

    References:
        Bao et al. 2020, doi:10.1007/s11432-019-2803-x
    """

    def __init__(self, root: str | Path, split: str = "train", transforms: Callable[..., Any] | None = None) -> None:
        super().__init__(root, transforms)
        verify_str_arg(split, "split", ("train", "test"))
        folder = require_placed(_IN_STEREO, root, f"InStereo2k/{split}") / "InStereo2k" / split
        self._add(*(_files(folder, f"*/{name}.png") for name in ("left", "right", "left_disp", "right_disp")))

    def _read_disparity(self, path: str) -> _Read:
        return read_disparity_png(path, 1024), None


_ETH3D = _facts(
    "eth3dstereo",
    "https://www.eth3d.net/datasets",
    "CC-BY-NC-SA-4.0",
    '@inproceedings{schops2017multi, author={Sch{\\"o}ps, Thomas and others}, title={A Multi-View Stereo Benchmark '
    "with High-Resolution Images and Multi-Camera Videos}, booktitle={CVPR}, year={2017}}",
    "Grey photographs of rooms and places with disparity.",
    splits=("train", "test"),
    mask=True,
)


@register_dataset(info=_ETH3D)
class ETH3DStereo(StereoMatchingDataset):
    """27 pairs of grey photographs of rooms and places with disparity, and 20 without.

    Args:
        root: folder that holds `ETH3D` with `two_view_training`, `two_view_training_gt` and `two_view_test`.
        split: "train" or "test".
        transforms: as for `StereoMatchingDataset`.

    Items as `StereoMatchingDataset`, with valid: what both cameras see. Both are None for the test.

    Raises:
        DatasetMissingError: a folder is missing.

    References:
        Schöps et al. 2017, doi:10.1109/CVPR.2017.272
    """

    _has_built_in_disparity_mask = True

    def __init__(self, root: str | Path, split: str = "train", transforms: Callable[..., Any] | None = None) -> None:
        super().__init__(root, transforms)
        train = verify_str_arg(split, "split", ("train", "test")) == "train"
        pictures = "two_view_training" if train else "two_view_test"
        needed = (pictures, "two_view_training_gt") if train else (pictures,)
        base = require_placed(_ETH3D, root, *(f"ETH3D/{name}" for name in needed)) / "ETH3D"
        truth = [_files(base / "two_view_training_gt", "*/disp0GT.pfm")] if train else []
        self._add(*(_files(base / pictures, f"*/{name}.png") for name in ("im0", "im1")), *truth)

    def _read_disparity(self, path: str) -> _Read:
        valid = np.asarray(_grey(Path(path).with_name("mask0nocc.png"))) > 0
        return np.abs(read_pfm(path)), valid
