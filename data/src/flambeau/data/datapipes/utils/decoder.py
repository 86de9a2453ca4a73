"""Handlers that decode the content of a file by the ending of its name.

A handler is called as `handler(extension, data)` with the ending in lower case, without its dot, and the bytes; it
gives None where the ending is not its own. Images, sound and video are decoded by flambeau.vision and flambeau.audio
where these are installed, images otherwise by Pillow.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import pickle
import posixpath
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = [
    "Decoder",
    "ImageHandler",
    "MatHandler",
    "audiohandler",
    "basichandlers",
    "extension_extract_fn",
    "handle_extension",
    "imagehandler",
    "mathandler",
    "videohandler",
]

Handler = Callable[[str, bytes], Any]

_TEXT = frozenset({"txt", "text", "transcript"})
_NUMBER = frozenset({"cls", "cls2", "class", "count", "index", "inx", "id"})
_JSON = frozenset({"json", "jsn"})
_PICKLE = frozenset({"pickle", "pyd", "pkl"})
_IMAGE = frozenset({"jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm", "webp", "bmp", "gif"})
_VIDEO = frozenset({"mp4", "ogv", "mjpeg", "avi", "mov", "h264", "mpg", "webm", "wmv"})
_AUDIO = frozenset({"flac", "mp3", "sox", "wav", "m4a", "ogg", "wma"})

# spec -> (kind of the result, uint8 rather than float in [0, 1], mode)
imagespecs: dict[str, tuple[str, bool, str]] = {
    "l8": ("numpy", True, "L"),
    "rgb8": ("numpy", True, "RGB"),
    "rgba8": ("numpy", True, "RGBA"),
    "l": ("numpy", False, "L"),
    "rgb": ("numpy", False, "RGB"),
    "rgba": ("numpy", False, "RGBA"),
    "torchl8": ("torch", True, "L"),
    "torchrgb8": ("torch", True, "RGB"),
    "torchrgba8": ("torch", True, "RGBA"),
    "torchl": ("torch", False, "L"),
    "torchrgb": ("torch", False, "RGB"),
    "torch": ("torch", False, "RGB"),
    "torchrgba": ("torch", False, "RGBA"),
    "pill": ("pil", True, "L"),
    "pil": ("pil", True, "RGB"),
    "pilrgb": ("pil", True, "RGB"),
    "pilrgba": ("pil", True, "RGBA"),
}


def basichandlers(extension: str, data: bytes) -> Any:
    """Plain values.

    | ending | value |
    |---|---|
    | txt, text, transcript | string, decoded as UTF-8 |
    | cls, cls2, class, count, index, inx, id | int; None where it is none |
    | json, jsn | JSON |
    | pickle, pyd, pkl | unpickled object; only for files that you trust |
    | pt | what `torch.load(weights_only=True)` gives |
    """
    if extension in _TEXT:
        return data.decode("utf-8")
    if extension in _NUMBER:
        try:
            return int(data)
        except ValueError:
            return None
    if extension in _JSON:
        return json.loads(data)
    if extension in _PICKLE:
        return pickle.loads(data)
    if extension == "pt":
        import torch

        return torch.load(io.BytesIO(data), weights_only=True)
    return None


def handle_extension(extensions: str, f: Callable[[bytes], Any]) -> Handler:
    """A handler that calls `f(data)` for the given endings.

    Args:
        extensions: endings between spaces, without regard to case; one with dots, such as "seg.jpg", needs all its
            parts.
        f: the decoder.
    """
    endings = [ending.split(".") for ending in extensions.lower().split()]

    def handle(key: str, data: bytes) -> Any:
        parts = key.lower().split(".")
        return f(data) if any(parts[-len(ending) :] == ending for ending in endings) else None

    return handle


class ImageHandler:
    """Decodes images.

    Args:
        imagespec: one of `imagespecs`: "l8", "rgb8" and "rgba8" give uint8 arrays (H, W, C), "l", "rgb" and "rgba"
            float32 arrays in [0, 1]; with "torch" in front tensors (C, H, W); with "pil" in front images of Pillow.
            Greyscale arrays are (H, W), tensors (1, H, W).

    Raises:
        ValueError: another spec.
    """

    def __init__(self, imagespec: str) -> None:
        if imagespec.lower() not in imagespecs:
            raise ValueError(f"imagespec is {imagespec!r}, expected one of {', '.join(imagespecs)}.")
        self.imagespec = imagespec.lower()

    def __call__(self, extension: str, data: bytes) -> Any:
        """Decode one file, or one pair."""
        if extension.lower() not in _IMAGE:
            return None
        kind, as_bytes, mode = imagespecs[self.imagespec]
        if kind == "torch":
            pixels = _image_tensor(data, mode)
            return pixels if as_bytes else pixels.float() / 255
        image = _pillow(data, mode)
        if kind == "pil":
            return image
        import numpy as np

        array = np.array(image)
        return array if as_bytes else array.astype(np.float32) / 255


def _image_tensor(data: bytes, mode: str) -> Any:
    """Pixels (C, H, W) in uint8."""
    import torch

    if importlib.util.find_spec("flambeau.vision") is not None:
        io_ = importlib.import_module("flambeau.vision.io")
        modes = {"L": "GRAY", "RGB": "RGB", "RGBA": "RGB_ALPHA"}
        return io_.decode_image(
            torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=io_.ImageReadMode[modes[mode]]
        )
    import numpy as np

    pixels = torch.from_numpy(np.array(_pillow(data, mode)))
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()


def _pillow(data: bytes, mode: str) -> Any:
    try:
        import PIL.Image
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("images are decoded with Pillow; install it: pip install pillow") from error
    with PIL.Image.open(io.BytesIO(data)) as image:
        return image.convert(mode)


def imagehandler(imagespec: str) -> ImageHandler:
    """The handler of images that gives what `imagespec` says; see `ImageHandler`."""
    return ImageHandler(imagespec)


def videohandler(extension: str, data: bytes) -> Any:
    """Frames, sound and rates of a video, as `flambeau.vision.io.read_video` gives them.

    Raises:
        ModuleNotFoundError: flambeau-vision is not installed.
    """
    if extension.lower() not in _VIDEO:
        return None
    return _by_file("flambeau.vision.io", "read_video", "flambeau-vision", extension, data)


def audiohandler(extension: str, data: bytes) -> Any:
    """Waveform and sample rate of a recording, as `flambeau.audio.load` gives them.

    Raises:
        ModuleNotFoundError: flambeau-audio is not installed.
    """
    if extension.lower() not in _AUDIO:
        return None
    return _by_file("flambeau.audio", "load", "flambeau-audio", extension, data)


def _by_file(module: str, name: str, distribution: str, extension: str, data: bytes) -> Any:
    try:
        decode = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f".{extension} is decoded by {distribution}, which is not installed. Run: pip install {distribution}"
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"file.{extension}")
        path.write_bytes(data)
        return decode(str(path))


class MatHandler:
    """Decodes MATLAB files.

    Args:
        **loadmat_kwargs: as for `scipy.io.loadmat`.

    Raises:
        ModuleNotFoundError: scipy is not installed.
    """

    def __init__(self, **loadmat_kwargs: Any) -> None:
        try:
            import scipy.io
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(".mat is decoded with scipy; install it: pip install scipy") from error
        self._loadmat = scipy.io.loadmat
        self.loadmat_kwargs = loadmat_kwargs

    def __call__(self, extension: str, data: bytes) -> Any:
        """Decode one file, or one pair."""
        return self._loadmat(io.BytesIO(data), **self.loadmat_kwargs) if extension.lower() == "mat" else None


def mathandler(**loadmat_kwargs: Any) -> MatHandler:
    """The handler of MATLAB files; see `MatHandler`."""
    return MatHandler(**loadmat_kwargs)


def extension_extract_fn(pathname: str) -> str:
    """The last ending of a path, without its dot."""
    return posixpath.splitext(pathname)[1][1:]


class Decoder:
    """Decodes pairs of path and data by the first handler that knows the ending.

    Args:
        *handler: asked in this order.
        key_fn: from a path to what handlers get as the ending.
    """

    def __init__(self, *handler: Handler, key_fn: Callable[[str], str] = extension_extract_fn) -> None:
        self.handlers = list(handler)
        self.key_fn = key_fn

    def add_handler(self, *handler: Handler) -> None:
        """Ask these first."""
        self.handlers = [*handler, *self.handlers]

    def decode1(self, key: str, data: Any) -> Any:
        """The value of one file by its ending; the data as bytes where no handler knows it."""
        if hasattr(data, "read"):
            with data as stream:
                data = stream.read()
        if not data:
            return data
        for handler in self.handlers:
            result = handler(key, data)
            if result is not None:
                return result
        return data

    def decode(self, data: Any) -> dict[str, Any]:
        """`{path: value}` of one pair, or of several; under paths with a leading `_`, which are notes, strings."""
        result: dict[str, Any] = {}
        for path, content in [data] if isinstance(data, tuple) else data or ():
            if path.startswith("_") and isinstance(content, bytes):
                result[path] = content.decode("utf-8")
            else:
                result[path] = self.decode1(self.key_fn(path), content)
        return result

    def __call__(self, data: Any) -> dict[str, Any]:
        """Decode one file, or one pair."""
        return self.decode(data)
