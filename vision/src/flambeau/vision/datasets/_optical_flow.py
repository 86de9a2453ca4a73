"""Datasets of optical flow: KITTI, Sintel, FlyingChairs, FlyingThings3D, HD1K. The files are placed by hand.

References:
    Menze and Geiger 2015, Object Scene Flow for Autonomous Vehicles. doi:10.1109/CVPR.2015.7298925
    Butler et al. 2012, A naturalistic open source movie for optical flow evaluation. doi:10.1007/978-3-642-33783-3_44
    Dosovitskiy et al. 2015, FlowNet. arXiv:1504.06852
    Mayer et al. 2016, A Large Dataset to Train Convolutional Networks for Disparity, Optical Flow, and Scene Flow
    Estimation. arXiv:1512.02134
    Kondermann et al. 2016, The HCI Benchmark Suite. doi:10.1109/CVPRW.2016.10
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset

from flambeau.core.datasets import DatasetInfo, Field, Gate, register_dataset
from flambeau.vision.datasets._flow_files import read_flo, read_flow_png, read_pfm
from flambeau.vision.datasets._pictures import IMAGE
from flambeau.vision.datasets._placed import require_placed
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["HD1K", "FlowDataset", "FlyingChairs", "FlyingThings3D", "KittiFlow", "Sintel"]

_FIRST, _SECOND = IMAGE, Field("next", "image", shape=(3, "H", "W"), dtype="uint8")
_FLOW = Field("flow", "tensor", shape=(2, "H", "W"), dtype="float32", optional=True)
_VALID = Field("valid", "tensor", shape=("H", "W"), dtype="bool", optional=True)


def _facts(name: str, homepage: str, license: str, citation: str, description: str, **more: Any) -> DatasetInfo:
    """The facts of one dataset; `valid` says whether items tell where the flow is valid."""
    schema = (_FIRST, _SECOND, _FLOW, *((_VALID,) if more.pop("valid", False) else ()))
    return DatasetInfo(
        name=name,
        task="optical-flow",
        schema=schema,
        license=license,
        citation=citation,
        homepage=homepage,
        gated=Gate("manual", homepage, "Unpack it as the class's documentation says."),
        description=description,
        **more,
    )


class FlowDataset(VisionDataset):
    """Base of datasets of optical flow: two pictures, and where each pixel of the first is in the second.

    Args:
        root: folder that holds the dataset's own.
        transforms: called with (picture, picture, flow, valid), returns as many; the last two may be None.
        loader: opens a picture by path.

    Items are (PIL image in RGB, PIL image in RGB, flow), where flow is a NumPy array [2, H, W], float32, in pixels;
    with a fourth part, valid [H, W] bool, where the dataset or the transforms give one. `3 * dataset` repeats it.
    """

    _has_builtin_flow_mask: ClassVar[bool] = False

    def __init__(
        self,
        root: str | Path,
        transforms: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root)
        self.transforms = transforms
        self.loader = loader
        self._image_list: list[tuple[str, str]] = []
        self._flow_list: list[str] = []

    def _read_flow(self, path: str) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        """Flow and, where the file tells, where it is valid."""
        return read_flo(path), None

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        """(picture, picture, flow) or (picture, picture, flow, valid) number `index`, transformed."""
        first, second = (self.loader(path) for path in self._image_list[index])
        flow, valid = self._read_flow(self._flow_list[index]) if self._flow_list else (None, None)
        parts: tuple[Any, ...] = (first, second, flow, valid)
        if self.transforms is not None:
            parts = self.transforms(*parts)
        return parts if self._has_builtin_flow_mask or parts[3] is not None else parts[:3]

    def __len__(self) -> int:
        return len(self._image_list)

    def __rmul__(self, v: int) -> ConcatDataset[Any]:
        return ConcatDataset([self] * v)

    def extra_repr(self) -> str:
        """Whether flow is known."""
        return f"Flow: {'yes' if self._flow_list else 'no'}"


def _files(folder: Path, pattern: str) -> list[str]:
    return sorted(str(path) for path in folder.glob(pattern))


_SINTEL = _facts(
    "sintel",
    "http://sintel.is.tue.mpg.de/",
    "CC-BY-3.0 (the film)",
    "@inproceedings{butler2012naturalistic, author={Butler, Daniel J. and others}, title={A naturalistic open source "
    "movie for optical flow evaluation}, booktitle={ECCV}, year={2012}}",
    "Frames of an animated film with exact flow.",
    splits=("train", "test"),
)


@register_dataset(info=_SINTEL)
class Sintel(FlowDataset):
    """1,041 pairs of frames of an animated film, 1024x436 pixels, with exact flow; each also without blur and fog.

    Args:
        root: folder that holds `Sintel` with `training` and `test`.
        split: "train", or "test" (552 pairs, no flow).
        pass_name: "clean", "final" (with blur and fog) or "both".
        transforms, loader: as for `FlowDataset`.

    Items as `FlowDataset`; scenes and frames are sorted. Flow is None for the test.

    Raises:
        DatasetMissingError: the folders are missing.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        pass_name: str = "clean",
        transforms: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", ("train", "test"))
        passes = _both(pass_name, "pass_name", ("clean", "final"))
        part = "training" if split == "train" else "test"
        folder = require_placed(_SINTEL, root, *(f"Sintel/{part}/{name}" for name in passes)) / "Sintel" / part
        for name in passes:
            for scene in sorted(path for path in (folder / name).iterdir() if path.is_dir()):
                self._image_list += pairwise(_files(scene, "*.png"))
                if split == "train":
                    self._flow_list += _files(folder / "flow" / scene.name, "*.flo")


_KITTI = _facts(
    "kittiflow",
    "https://www.cvlibs.net/datasets/kitti/eval_scene_flow.php?benchmark=flow",
    "CC-BY-NC-SA-3.0",
    "@inproceedings{menze2015object, author={Menze, Moritz and Geiger, Andreas}, title={Object Scene Flow for "
    "Autonomous Vehicles}, booktitle={CVPR}, year={2015}}",
    "Pairs of photographs from a car with flow.",
    sizes={"train": 200, "test": 200},
    valid=True,
)


@register_dataset(info=_KITTI)
class KittiFlow(FlowDataset):
    """200 pairs of photographs from a moving car with flow, about 1242x375 pixels, and 200 without.

    Args:
        root: folder that holds `KittiFlow` with `training` and `testing`.
        split: "train" or "test".
        transforms, loader: as for `FlowDataset`.

    Items as `FlowDataset`, with valid; flow and valid are None for the test.

    Raises:
        DatasetMissingError: the folders are missing.
    """

    _has_builtin_flow_mask = True

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transforms: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transforms, loader)
        part = {"train": "training", "test": "testing"}[verify_str_arg(split, "split", ("train", "test"))]
        folder = require_placed(_KITTI, root, f"KittiFlow/{part}/image_2") / "KittiFlow" / part
        firsts, seconds = (_files(folder / "image_2", f"*_{number}.png") for number in (10, 11))
        self._image_list = list(zip(firsts, seconds, strict=True))
        if split == "train":
            self._flow_list = _files(folder / "flow_occ", "*_10.png")

    def _read_flow(self, path: str) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        return read_flow_png(path)


_CHAIRS = _facts(
    "flyingchairs",
    "https://lmb.informatik.uni-freiburg.de/resources/datasets/FlyingChairs.en.html",
    "research use",
    "@inproceedings{dosovitskiy2015flownet, author={Dosovitskiy, Alexey and others}, title={FlowNet: Learning Optical "
    "Flow with Convolutional Networks}, booktitle={ICCV}, year={2015}}",
    "Rendered chairs in front of photographs, with exact flow.",
    sizes={"train": 22_232, "val": 640},
)


@register_dataset(info=_CHAIRS)
class FlyingChairs(FlowDataset):
    """22,872 pairs of rendered chairs in front of photographs, 512x384 pixels, with exact flow.

    Args:
        root: folder that holds `FlyingChairs` with `data` and `FlyingChairs_train_val.txt`.
        split: "train" or "val".
        transforms: as for `FlowDataset`.

    Items as `FlowDataset`.

    Raises:
        DatasetMissingError: the folder, or the list of what belongs to which split, is missing.
    """

    def __init__(self, root: str | Path, split: str = "train", transforms: Callable[..., Any] | None = None) -> None:
        super().__init__(root, transforms)
        wanted = {"train": "1", "val": "2"}[verify_str_arg(split, "split", ("train", "val"))]
        listing = "FlyingChairs/FlyingChairs_train_val.txt"
        folder = require_placed(_CHAIRS, root, listing, "FlyingChairs/data")
        parts = (folder / listing).read_text(encoding="ascii").split()
        data = folder / "FlyingChairs" / "data"
        flows, firsts, seconds = (_files(data, name) for name in ("*.flo", "*_img1.ppm", "*_img2.ppm"))
        chosen = [item for item, part in enumerate(parts) if part == wanted]
        self._image_list = [(firsts[item], seconds[item]) for item in chosen]
        self._flow_list = [flows[item] for item in chosen]


_THINGS = _facts(
    "flyingthings3d",
    "https://lmb.informatik.uni-freiburg.de/resources/datasets/SceneFlowDatasets.en.html",
    "research use, not commercial",
    "@inproceedings{mayer2016large, author={Mayer, Nikolaus and others}, title={A Large Dataset to Train Convolutional "
    "Networks for Disparity, Optical Flow, and Scene Flow Estimation}, booktitle={CVPR}, year={2016}}",
    "Rendered things that fly about, with exact flow.",
    splits=("train", "test"),
)


@register_dataset(info=_THINGS)
class FlyingThings3D(FlowDataset):
    """Rendered things that fly about, 960x540 pixels, from two cameras, with exact flow to both neighbours in time.

    Args:
        root: folder that holds `FlyingThings3D` with `frames_cleanpass` or `frames_finalpass`, and `optical_flow`.
        split: "train" or "test".
        pass_name: "clean", "final" or "both".
        camera: "left", "right" or "both".
        transforms, loader: as for `FlowDataset`.

    Items as `FlowDataset`, by pass, camera and direction (first forward, then back in time).

    Raises:
        DatasetMissingError: the folders are missing.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        pass_name: str = "clean",
        camera: str = "left",
        transforms: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transforms, loader)
        part = verify_str_arg(split, "split", ("train", "test")).upper()
        passes = [f"frames_{name}pass" for name in _both(pass_name, "pass_name", ("clean", "final"))]
        cameras = _both(camera, "camera", ("left", "right"))
        needed = [f"FlyingThings3D/{name}/{part}" for name in (*passes, "optical_flow")]
        folder = require_placed(_THINGS, root, *needed) / "FlyingThings3D"
        for frames, side, direction in product(passes, cameras, ("into_future", "into_past")):
            for scene in sorted((folder / frames / part).glob("*/*")):
                flow_folder = folder / "optical_flow" / scene.relative_to(folder / frames) / direction / side
                pictures, flows = _files(scene / side, "*.png"), _files(flow_folder, "*.pfm")
                # Flow forward belongs to the first picture of a pair, flow back to the second.
                if direction == "into_future":
                    self._image_list += pairwise(pictures)
                    self._flow_list += flows[:-1]
                else:
                    self._image_list += [(later, earlier) for earlier, later in pairwise(pictures)]
                    self._flow_list += flows[1:]

    def _read_flow(self, path: str) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        return read_pfm(path)[:2], None  # the third channel is not used


_HD1K = _facts(
    "hd1k",
    "http://hci-benchmark.iwr.uni-heidelberg.de/",
    "unknown; cite the paper",
    "@inproceedings{kondermann2016hci, author={Kondermann, Daniel and others}, title={The HCI Benchmark Suite: Stereo "
    "and Flow Ground Truth With Uncertainties for Urban Autonomous Driving}, booktitle={CVPR Workshops}, year={2016}}",
    "Photographs from a car with flow.",
    splits=("train", "test"),
    sizes={"train": 1047},
    valid=True,
)


@register_dataset(info=_HD1K)
class HD1K(FlowDataset):
    """1,047 pairs of photographs of 36 drives, 2560x1080 pixels, with flow.

    Args:
        root: folder that holds `hd1k` with `hd1k_input`, `hd1k_flow_gt` and `hd1k_challenge`.
        split: "train" or "test".
        transforms, loader: as for `FlowDataset`.

    Items as `FlowDataset`, with valid; flow and valid are None for the test.

    Raises:
        DatasetMissingError: the folders are missing.
    """

    _has_builtin_flow_mask = True

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transforms: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        super().__init__(root, transforms, loader)
        if verify_str_arg(split, "split", ("train", "test")) == "test":
            folder = require_placed(_HD1K, root, "hd1k/hd1k_challenge/image_2") / "hd1k/hd1k_challenge/image_2"
            firsts, seconds = (_files(folder, f"*{number}.png") for number in (10, 11))
            self._image_list = list(zip(firsts, seconds, strict=True))
            return
        needed = ("hd1k/hd1k_input/image_2", "hd1k/hd1k_flow_gt/flow_occ")
        base = require_placed(_HD1K, root, *needed)
        for drive in range(36):
            pictures, flows = (_files(base / folder, f"{drive:06d}_*.png") for folder in needed)
            self._image_list += pairwise(pictures)
            self._flow_list += flows[:-1]

    def _read_flow(self, path: str) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        return read_flow_png(path)


def _both(value: str, argument: str, names: tuple[str, str]) -> tuple[str, ...]:
    verify_str_arg(value, argument, (*names, "both"))
    return names if value == "both" else (value,)
