"""Sets of optical flow and stereo matching, two pairs of pictures in each part."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from flambeau.vision._miniatures.files import lines, noise, picture

__all__ = ["WRITERS", "flo", "pfm", "wide_png"]


def flo(path: Path, flow: NDArray[Any]) -> None:
    """Write flow [2, H, W] in Middlebury's format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = b"PIEH" + struct.pack("<2i", flow.shape[2], flow.shape[1])
    path.write_bytes(head + flow.transpose(1, 2, 0).astype("<f4").tobytes())


def pfm(path: Path, values: NDArray[Any], *, order: str = "<") -> None:
    """Write [1 or 3, H, W] as a portable float map."""
    path.parent.mkdir(parents=True, exist_ok=True)
    channels, height, width = values.shape
    head = f"{'PF' if channels == 3 else 'Pf'}\n{width} {height}\n{'-1.0' if order == '<' else '1.0'}\n"
    path.write_bytes(head.encode() + values.transpose(1, 2, 0)[::-1].astype(f"{order}f4").tobytes())


def wide_png(path: Path, pixels: NDArray[np.uint16]) -> None:
    """Write [H, W, 3] as a PNG of 16 bits per channel, which Pillow cannot."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    chunks = (
        (b"IHDR", struct.pack(">2I5B", width, height, 16, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    content = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(content))


def _values(path: Path, channels: int) -> NDArray[np.float32]:
    values: NDArray[np.float32] = noise(path.parts[-4:], channels, 8, 12).astype(np.float32) / np.float32(
        8
    ) - np.float32(9)
    return values


def _grey(path: Path, *, wide: bool = True) -> None:
    """A grey PNG, of 16 bits where `wide`."""
    pixels = noise(path.parts[-3:], 8, 12).astype(np.uint16) * 100 + 1
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels if wide else (pixels > 9000).astype(np.uint8)).save(path)


def sintel(root: Path) -> None:
    """Two scenes of three and two frames, and one for the test."""
    for part, scenes in (("training", {"alley_1": 3, "ambush_2": 2}), ("test", {"cave_3": 3})):
        for scene, frames in scenes.items():
            for number in range(1, frames + 1):
                for name in ("clean", "final"):
                    picture(root / "Sintel" / part / name / scene / f"frame_{number:04d}.png")
                if part == "training" and number < frames:
                    path = root / "Sintel" / part / "flow" / scene / f"frame_{number:04d}.flo"
                    flo(path, _values(path, 2))


def kitti_flow(root: Path) -> None:
    """Two pairs with flow and two without."""
    for part in ("training", "testing"):
        for scene in ("000000", "000001"):
            for number in ("10", "11"):
                picture(root / "KittiFlow" / part / "image_2" / f"{scene}_{number}.png")
            if part == "training":
                _wide_flow(root / "KittiFlow" / part / "flow_occ" / f"{scene}_10.png")


def _wide_flow(path: Path) -> None:
    pixels = noise(path.parts[-3:], 8, 12, 3).astype(np.uint16) * 256 + 7
    pixels[..., 2] %= 2
    pixels[0, 0] = (2**15 + 64, 2**15 - 32, 1)
    wide_png(path, pixels)


def hd1k(root: Path) -> None:
    """Two drives of three and two frames, and one for the test."""
    base = root / "hd1k"
    for drive, frames in ((0, 3), (35, 2)):
        for number in range(frames):
            name = f"{drive:06d}_{number:04d}.png"
            picture(base / "hd1k_input" / "image_2" / name)
            _wide_flow(base / "hd1k_flow_gt" / "flow_occ" / name)
    for name in ("000000_10.png", "000000_11.png"):
        picture(base / "hd1k_challenge" / "image_2" / name)


def flying_chairs(root: Path) -> None:
    """Three pairs, the second for validation."""
    base = root / "FlyingChairs"
    for number in (1, 2, 3):
        for name in ("img1", "img2"):
            picture(base / "data" / f"{number:05d}_{name}.ppm")
        path = base / "data" / f"{number:05d}_flow.flo"
        flo(path, _values(path, 2))
    lines(base / "FlyingChairs_train_val.txt", "1", "2", "1")


def flying_things(root: Path) -> None:
    """A scene of three frames a split, with both cameras, passes and directions."""
    base = root / "FlyingThings3D"
    for part in ("TRAIN", "TEST"):
        for side in ("left", "right"):
            for number in (6, 7, 8):
                for frames in ("frames_cleanpass", "frames_finalpass"):
                    picture(base / frames / part / "A" / "0000" / side / f"{number:04d}.png")
                for direction in ("into_future", "into_past"):
                    folder = base / "optical_flow" / part / "A" / "0000" / direction / side
                    path = folder / f"OpticalFlow_{number:04d}_{side[0].upper()}.pfm"
                    pfm(path, _values(path, 3))


def kitti_stereo(year: str, root: Path) -> None:
    """Two pairs with disparity and two without."""
    names = {"2012": ("colored_0", "colored_1", "disp_noc"), "2015": ("image_2", "image_3", "disp_occ_0", "disp_occ_1")}
    for part in ("training", "testing"):
        folder = root / f"Kitti{year}" / part
        for scene in ("000000_10.png", "000001_10.png"):
            for name in names[year][:2]:
                picture(folder / name / scene)
            for name in names[year][2:] if part == "training" else ():
                _grey(folder / name / scene)


def _pair(folder: Path, left: str, right: str, *disparities: str) -> None:
    for name in (left, right):
        picture(folder / name)
    for name in disparities:
        if name.endswith(".pfm"):
            pfm(folder / name, _values(folder / name, 1))
        else:
            _grey(folder / name)


def carla(root: Path) -> None:
    """Two scenes."""
    for scene in ("town1", "town2"):
        _pair(root / "carla-highres" / "trainingF" / scene, "im0.png", "im1.png", "disp0GT.pfm", "disp1GT.pfm")


def middlebury(root: Path) -> None:
    """Two rooms for training, one of them well and badly calibrated, and one for the test."""
    base = root / "Middlebury2014"
    for scene in ("Adirondack-perfect", "Piano-perfect", "Piano-imperfect"):
        _pair(base / "train" / scene, "im0.png", "im1.png", "disp0.pfm", "disp1.pfm")
        for view in ("im1E.png", "im1L.png"):
            picture(base / "train" / scene / view)
    path = base / "train" / "Adirondack-perfect" / "disp0.pfm"
    values = _values(path, 1)
    values[0, 0, :3] = (np.inf, 2.5, 0)
    pfm(path, values)
    _pair(base / "MiddEval3" / "testF" / "Plants", "im0.png", "im1.png")


def cre(root: Path) -> None:
    """A pair of each kind."""
    for kind in ("shapenet", "reflective", "tree", "hole"):
        _pair(root / "CREStereo" / kind, "0_left.jpg", "0_right.jpg", "0_left.disp.png", "0_right.disp.png")


def falling_things(root: Path) -> None:
    """Two pairs of each variant."""
    for folder in ("single/002_can/kitchen_0", "mixed/kitchen_0"):
        place = root / "FallingThings" / folder
        for name in ("000000", "000001"):
            _pair(place, f"{name}.left.jpg", f"{name}.right.jpg", f"{name}.left.depth.png", f"{name}.right.depth.png")
        settings = {"camera_settings": [{"name": "left", "intrinsic_settings": {"fx": 768.0, "fy": 768.0}}]}
        lines(place / "_camera_settings.json", json.dumps(settings))


def scene_flow(root: Path) -> None:
    """Two pairs of each variant."""
    for variant, scene in (("FlyingThings3D", "TRAIN/A/0000"), ("Driving", "15mm/forwards/fast"), ("Monkaa", "funny")):
        base = root / "SceneFlow" / variant
        for side in ("left", "right"):
            for name in ("0006", "0007"):
                for frames in ("frames_cleanpass", "frames_finalpass"):
                    picture(base / frames / scene / side / f"{name}.png")
                path = base / "disparity" / scene / side / f"{name}.pfm"
                pfm(path, _values(path, 1))


def sintel_stereo(root: Path) -> None:
    """Two frames."""
    base = root / "Sintel" / "training"
    for name in ("frame_0001.png", "frame_0002.png"):
        for folder in ("final_left", "final_right", "clean_left", "clean_right", "disparities"):
            picture(base / folder / "alley_1" / name)
        for folder in ("occlusions", "outofframe"):
            _grey(base / folder / "alley_1" / name, wide=False)


def in_stereo(root: Path) -> None:
    """Two pairs a split."""
    for split in ("train", "test"):
        for scene in ("000001", "000002"):
            names = ("left.png", "right.png", "left_disp.png", "right_disp.png")
            _pair(root / "InStereo2k" / split / scene, *names)


def eth3d(root: Path) -> None:
    """Two pairs a split."""
    for scene in ("delivery_area_1l", "forest_1s"):
        for part in ("two_view_training", "two_view_test"):
            _pair(root / "ETH3D" / part / scene, "im0.png", "im1.png")
        truth = root / "ETH3D" / "two_view_training_gt" / scene
        pfm(truth / "disp0GT.pfm", _values(truth, 1))
        _grey(truth / "mask0nocc.png", wide=False)


def kitti_2012(root: Path) -> None:
    """See `kitti_stereo`."""
    kitti_stereo("2012", root)


def kitti_2015(root: Path) -> None:
    """See `kitti_stereo`."""
    kitti_stereo("2015", root)


WRITERS: dict[str, Any] = {
    "carlastereo": carla,
    "crestereo": cre,
    "eth3dstereo": eth3d,
    "fallingthingsstereo": falling_things,
    "flyingchairs": flying_chairs,
    "flyingthings3d": flying_things,
    "hd1k": hd1k,
    "instereo2k": in_stereo,
    "kitti2012stereo": kitti_2012,
    "kitti2015stereo": kitti_2015,
    "kittiflow": kitti_flow,
    "middlebury2014stereo": middlebury,
    "sceneflowstereo": scene_flow,
    "sintel": sintel,
    "sintelstereo": sintel_stereo,
}
