"""Sets of small pictures in one file or a few: the MNIST family, SVHN, STL-10, USPS, Semeion, Omniglot."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flambeau.vision._miniatures.files import lines, noise, picture
from flambeau.vision.datasets._readers import reader

__all__ = ["WRITERS", "idx"]

_CODES = {"uint8": 0x08, "int32": 0x0C}


def idx(array: NDArray[Any]) -> bytes:
    """An array as the bytes of an IDX file."""
    head = bytes([0, 0, _CODES[str(array.dtype)], array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def _write_packed(path: Path, content: bytes) -> None:
    """Write a file and its compressed form, as both lie there after a download; `path` is that of the latter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix("").write_bytes(content)
    path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else gzip.compress(content, mtime=0))


def mnist(name: str, root: Path) -> None:
    """Three digits a part."""
    for prefix in ("train", "t10k"):
        folder = root / name / "raw"
        _write_packed(folder / f"{prefix}-images-idx3-ubyte.gz", idx(noise((name, prefix), 3, 28, 28)))
        _write_packed(folder / f"{prefix}-labels-idx1-ubyte.gz", idx(np.array([7, 0, 9], dtype=np.uint8)))


def emnist(root: Path) -> dict[str, Any]:
    """Three letters a part."""
    folder = root / "EMNIST" / "raw" / "gzip"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        images, labels = idx(noise(("emnist", part), 3, 28, 28)), idx(np.array([1, 26, 2], dtype=np.uint8))
        (folder / f"emnist-letters-{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, mtime=0))
        (folder / f"emnist-letters-{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels, mtime=0))
    return {"split": "letters"}


def qmnist(root: Path) -> None:
    """Three digits a part."""
    rows = np.array([[7, 4, 1, 2, 55, 100, 0, 0], [0, 4, 1, 3, 48, 101, 0, 0], [9, 1, 2, 0, 57, 102, 0, 0]], np.int32)
    for name, suffix in (("qmnist-train", "gz"), ("qmnist-test", "gz"), ("xnist", "xz")):
        folder = root / "QMNIST" / "raw"
        _write_packed(folder / f"{name}-images-idx3-ubyte.{suffix}", idx(noise(("qmnist", name), 3, 28, 28)))
        _write_packed(folder / f"{name}-labels-idx2-int.{suffix}", idx(rows))


def svhn(root: Path) -> None:
    """Three house numbers a split; the digit 0 is called 10."""
    for split in ("train", "test", "extra"):
        content = {"X": noise(("svhn", split), 32, 32, 3, 3), "y": np.array([[1], [10], [9]], dtype=np.uint8)}
        reader("scipy.io", "the miniature of SVHN").savemat(root / f"{split}_32x32.mat", content)


def stl10(root: Path) -> None:
    """Ten pictures for training, one for each fold, and two in the other parts."""
    folder = root / "stl10_binary"
    folder.mkdir(parents=True)
    for part, items in (("train", 10), ("test", 2), ("unlabeled", 2)):
        (folder / f"{part}_X.bin").write_bytes(noise(("stl10", part), items, 3, 96, 96).tobytes())
        if part != "unlabeled":
            (folder / f"{part}_y.bin").write_bytes(bytes(range(1, items + 1)))
    lines(folder / "fold_indices.txt", *(f"{fold} {(fold + 1) % 10} " for fold in range(10)))
    lines(
        folder / "class_names.txt",
        *["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"],
    )


def usps(root: Path) -> None:
    """Two digits a part, the second one with entries left out."""
    values = np.round(np.linspace(-1, 1, 256), 4)
    whole = "10 " + " ".join(f"{position}:{value}" for position, value in enumerate(values, 1))
    for name in ("usps.bz2", "usps.t.bz2"):
        (root / name).write_bytes(bz2.compress(f"{whole}\n1 1:-1 256:1\n".encode()))


def semeion(root: Path) -> dict[str, Any]:
    """Two digits."""
    rows = [
        " ".join(
            [f"{pixel % 2:.4f}" for pixel in noise(("semeion", digit), 256)] + ["01"[digit == k] for k in range(10)]
        )
        for digit in (3, 0)
    ]
    lines(root / "semeion.data", *rows)
    return {"download": False}


def omniglot(root: Path) -> None:
    """Two alphabets with two characters each, by two people."""
    for split in ("background", "evaluation"):
        for name in ("Greek/character01", "Greek/character02", "Latin/character01"):
            for person in ("01", "02"):
                folder = root / "omniglot-py" / f"images_{split}" / name
                picture(folder / f"0709_{person}.png", height=105, width=105, channels=1)


WRITERS: dict[str, Any] = {
    "emnist": emnist,
    "fashionmnist": partial(mnist, "FashionMNIST"),
    "kmnist": partial(mnist, "KMNIST"),
    "mnist": partial(mnist, "MNIST"),
    "omniglot": omniglot,
    "qmnist": qmnist,
    "semeion": semeion,
    "stl10": stl10,
    "svhn": svhn,
    "usps": usps,
}
