# ruff: noqa: E501  # a line of a table is a program
"""What datasets are made of, beside torchvision's: folders, made-up pictures, clips of videos, samplers, files."""

from __future__ import annotations

import bz2
import dataclasses
import functools
import gzip
import lzma
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from miniature_trees import empty_folder, listed
from pictures import NAMES, describe
from PIL import Image

from flambeau.core.testing.differential import Library, Suite, cross

pytest.importorskip("torchvision.datasets.samplers")


def untold(path: Path) -> str:
    """Archives are made anew for each library, with times in them."""
    return "archive"


SUITE = Suite(
    "dataset tools",
    ours="flambeau.vision",
    peer="torchvision",
    differences=Path(__file__).with_name("differences.toml"),
    describers=[describe],
    files=dict.fromkeys((".tar", ".gz", ".tgz", ".xz", ".bz2", ".tbz", ".tbz2", ".zip"), untold),
)


def pets(library: Library) -> Path:
    """A folder of classes, one of them empty, with files of several kinds."""
    root = library.folder / "pets"
    for name, level in (
        ("cat/b.png", 1),
        ("cat/a.JPG", 2),
        ("dog/c.png", 3),
        ("dog/more/d.jpeg", 4),
        ("ape/e.webp", 5),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 5), (level, 2 * level, 3 * level)).save(root / name, lossless=True)
    (root / "dog" / "notes.txt").write_text("notes")
    (root / "loose.png").write_bytes(b"")
    (root / "empty").mkdir()
    return root


def packed(library: Library) -> Path:
    """The same two files in archives of every kind."""
    root = library.folder
    source = root / "source"
    (source / "sub").mkdir(parents=True)
    (source / "one.txt").write_text("one\n")
    (source / "sub" / "two.txt").write_text("two\n")
    for name, mode in (("a.tar", "w"), ("b.tar.gz", "w:gz"), ("c.tgz", "w:gz"), ("d.tar.xz", "w:xz"), ("e.tar.bz2", "w:bz2"), ("f.tbz", "w:bz2"), ("g.tbz2", "w:bz2")):  # fmt: skip
        with tarfile.open(root / name, mode) as archive:
            archive.add(source, ".")
    with zipfile.ZipFile(root / "h.zip", "w") as archive:
        archive.write(source / "one.txt", "one.txt")
        archive.write(source / "sub" / "two.txt", "sub/two.txt")
    (root / "i.txt.gz").write_bytes(gzip.compress(b"one\n", mtime=0))
    (root / "j.txt.bz2").write_bytes(bz2.compress(b"one\n"))
    (root / "k.txt.xz").write_bytes(lzma.compress(b"one\n"))
    (root / "l.rar").write_bytes(b"Rar!")
    shutil.rmtree(source)
    return root


@functools.cache
def _videos() -> Path:
    from flambeau.vision._miniatures.videos import video

    folder = empty_folder("videos")
    for name, frames in (("a.mp4", 12), ("b.mp4", 7), ("c.avi", 3)):
        video(folder / name, frames)
    return folder


def videos(library: Library) -> list[str]:
    """Three videos of 12, 7 and 3 frames."""
    return [str(_videos() / name) for name in ("a.mp4", "b.mp4", "c.avi")]


def clips(library: Library) -> Any:
    """The index of their clips."""
    return library.datasets.video_utils.VideoClips(videos(library), 3, 2)


def items(dataset: Any) -> list[Any]:
    """Its length and first items."""
    return [len(dataset), *(dataset[index] for index in range(min(len(dataset), 12)))]


def index(clips: Any) -> dict[str, Any]:
    """All that an index of clips knows, with the paths as names."""
    places = [clips.get_clip_location(at) for at in range(clips.num_clips())]
    return {
        "videos": clips.num_videos(),
        "clips": [list(part.shape) for part in clips.clips],
        "sums": list(clips.cumulative_sizes),
        "places": [(int(video), int(clip)) for video, clip in places],
        "again": [len(part) for part in clips.subset([0, 2]).clips],
    }


def pixels(clip: Any) -> Any:
    """Frames and audio of a clip; decoders differ by a level or two, so only coarse levels are compared."""
    video, audio, info, number = clip
    return {
        "shape": list(video.shape), "dtype": str(video.dtype), "levels": (video.float().mean((0, 1, 2)) / 8).round(),
        "audio": list(audio.shape), "info": sorted(info), "number": number,
    }  # fmt: skip


def programs(text: str) -> list[str]:
    """One-line programs, in which D. stands for the datasets' modules."""
    return [line.strip().replace("D.", "datasets.") for line in text.splitlines() if line.strip()]


LENT = NAMES | {"items": items, "index": index, "pixels": pixels, "Path": Path}
_cells = cross("folders", {"pets": {"root": pets}}, programs("""
    items(D.ImageFolder(root, allow_empty=True))
    items(D.ImageFolder(str(root), allow_empty=True))
    repr(D.ImageFolder(root, allow_empty=True))
    repr(D.ImageFolder(str(root), allow_empty=True, transform=transforms.Compose([transforms.Resize(3), transforms.ToTensor()])))
    items(D.ImageFolder(root))
    items(D.ImageFolder(root, None, None, lambda path: Path(path).name, None, True))
    items(D.ImageFolder(root, loader=lambda path: type(path).__name__, allow_empty=True))
    items(D.ImageFolder(root, is_valid_file=lambda path: path.endswith(".txt"), loader=len, allow_empty=True))
    items(D.ImageFolder(root, is_valid_file=lambda path: path.endswith(".txt"), loader=len))
    items(D.ImageFolder(root, lambda x: x.size, lambda y: -y, allow_empty=True))
    D.ImageFolder(root, allow_empty=True).class_to_idx
    D.ImageFolder(root, allow_empty=True).classes
    D.ImageFolder(root, allow_empty=True).targets
    [(Path(path).name, label) for path, label in D.ImageFolder(root, allow_empty=True).imgs]
    D.ImageFolder(root, allow_empty=True).extensions
    D.ImageFolder(root / "none")
    D.ImageFolder(root / "empty")
    D.ImageFolder(root / "loose.png")
    D.ImageFolder(root, allow_empty=True)[-1][1]
    D.ImageFolder(root, allow_empty=True)[100]
    D.ImageFolder(root, allow_empty=True)["a"]
    D.ImageFolder(root, extensions=(".png",))
    items(D.DatasetFolder(root, len, (".png",), allow_empty=True))
    items(D.DatasetFolder(root, len, ".png", allow_empty=True))
    items(D.DatasetFolder(root, len, (".PNG",), allow_empty=True))
    items(D.DatasetFolder(root, lambda path: Path(path).read_text(), (".txt",), allow_empty=True))
    items(D.DatasetFolder(root, lambda path: Path(path).name, is_valid_file=lambda path: "d" in Path(path).name, allow_empty=True))
    items(D.DatasetFolder(root, len, (".png",), is_valid_file=lambda path: True))
    items(D.DatasetFolder(root, len))
    items(D.DatasetFolder(root, len, (".none",)))
    items(D.DatasetFolder(root, len, (".none",), allow_empty=True))
    repr(D.DatasetFolder(root, len, (".png",), target_transform=len, allow_empty=True))
    D.folder.find_classes(root)
    D.folder.find_classes(str(root))
    D.folder.find_classes(root / "empty")
    D.folder.find_classes(root / "none")
    [(Path(path).name, label) for path, label in D.folder.make_dataset(root, {"cat": 3}, (".png",))]
    [(Path(path).name, label) for path, label in D.folder.make_dataset(str(root), {"cat": 3, "none": 1}, (".png", ".jpg"), allow_empty=True)]
    D.folder.make_dataset(root, {"cat": 3, "none": 1}, (".png",))
    D.folder.make_dataset(root, {}, (".png",))
    D.folder.make_dataset(root, None, (".png",), allow_empty=True)[0][1]
    D.folder.make_dataset(root)
    D.folder.make_dataset(root, extensions=(".png",), is_valid_file=len)
    D.DatasetFolder.make_dataset(root, None, (".png",))
    D.folder.has_file_allowed_extension("a.PNG", ".png"), D.folder.has_file_allowed_extension("a.gif", (".png", ".jpg"))
    D.folder.is_image_file("a.TIFF"), D.folder.is_image_file("a.gif"), D.folder.is_image_file(".png")
    D.folder.IMG_EXTENSIONS
    D.folder.pil_loader(str(root / "cat" / "b.png"))
    D.folder.default_loader(root / "dog" / "c.png")
    D.folder.pil_loader(root / "none.png")
    D.folder.pil_loader(root / "loose.png")
"""), names=LENT)  # fmt: skip
_cells += cross("fake", {"none": {}}, programs("""
    items(D.FakeData(3, (3, 4, 5), 10))
    items(D.FakeData(3, (1, 4, 5), 2, random_offset=7))
    items(D.FakeData(size=2, image_size=(3, 4, 5), transform=transforms.ToTensor()))
    items(D.FakeData(size=2, image_size=(3, 4, 5), target_transform=lambda y: ("y", y)))
    D.FakeData(2, (3, 4, 5))[1]
    D.FakeData(2, (3, 4, 5))[2]
    D.FakeData(2, (3, 4, 5))[-1]
    D.FakeData(5, (2, 4, 5))[0]
    len(D.FakeData())
    repr(D.FakeData(4))
    repr(D.FakeData(4, transform=transforms.ToTensor()))
    D.FakeData(2, (3, 4, 5))[0]; torch.rand(2)
    [y for x, y in torch.utils.data.DataLoader(D.FakeData(4, (3, 4, 5), transform=transforms.ToTensor()), batch_size=2)]
    D.VisionDataset("here")[0]
    len(D.VisionDataset("here"))
    D.VisionDataset("~/here").root == str(Path("~/here").expanduser())
    D.VisionDataset(Path("here")).root
    D.VisionDataset("here", transforms=len, transform=len)
    D.VisionDataset("here", transforms=len, target_transform=len)
    D.VisionDataset("here", len).transforms(3)
    D.VisionDataset("here", transform=str, target_transform=float).transforms(3, 4)
    repr(D.vision.StandardTransform(transforms.ToTensor(), transforms.Compose([transforms.ToTensor()])))
    repr(D.vision.StandardTransform())
"""), names=LENT)  # fmt: skip
_cells += cross("files", {"packed": {"root": packed}}, programs("""
    [D.utils.extract_archive(root / name, root / "to" / name) for name in ("a.tar", "b.tar.gz", "c.tgz", "d.tar.xz")]
    [D.utils.extract_archive(str(root / name), str(root / "to" / name)) for name in ("e.tar.bz2", "f.tbz", "g.tbz2", "h.zip")]
    [D.utils.extract_archive(str(root / name), str(root / "to.txt")) for name in ("i.txt.gz", "j.txt.bz2", "k.txt.xz")]
    D.utils.extract_archive(str(root / "i.txt.gz"))
    D.utils.extract_archive(str(root / "a.tar"))
    D.utils.extract_archive(str(root / "h.zip"), str(root / "new"), True)
    D.utils.extract_archive(str(root / "i.txt.gz"), remove_finished=True)
    D.utils.extract_archive(str(root / "l.rar"))
    D.utils.extract_archive(str(root / "none.zip"))
    D.utils.extract_archive(str(root))
    D.utils.calculate_md5(root / "i.txt.gz"), D.utils.calculate_md5(str(root / "i.txt.gz"), chunk_size=3)
    D.utils.calculate_md5(root / "none")
    D.utils.check_md5(root / "l.rar", D.utils.calculate_md5(root / "l.rar")), D.utils.check_md5(root / "l.rar", "0" * 32)
    D.utils.check_md5(root / "l.rar", D.utils.calculate_md5(root / "l.rar").upper())
    D.utils.check_md5(root / "l.rar", "x", chunk_size=2)
    D.utils.check_integrity(root / "l.rar"), D.utils.check_integrity(str(root / "none")), D.utils.check_integrity(root)
    D.utils.check_integrity(root / "l.rar", D.utils.calculate_md5(root / "l.rar")), D.utils.check_integrity(root / "l.rar", "x")
    D.utils.check_integrity(root / "none", "x")
    D.utils.list_files(root, ".gz"), D.utils.list_files(str(root), (".zip", ".tar"))
    [type(path).__name__ for path in D.utils.list_files(root, ".gz", prefix=True)]
    [Path(path).name for path in D.utils.list_files(str(root), ".gz", True)]
    D.utils.list_files(root, ".none"), D.utils.list_dir(root)
    D.utils.list_files(root / "none", ".gz")
    (root / "sub" / "b").mkdir(parents=True); (root / "sub" / "a").mkdir(); D.utils.list_dir(root), D.utils.list_dir(root / "sub")
    (root / "sub").mkdir(); [Path(path).name for path in D.utils.list_dir(root, prefix=True)]
    D.utils.list_dir(root / "none")
    D.utils.iterable_to_str(["a", "b"]), D.utils.iterable_to_str([]), D.utils.iterable_to_str(iter("ab"))
    D.utils.verify_str_arg("a", "letter", ("a", "b")), D.utils.verify_str_arg("a"), D.utils.verify_str_arg("a", "letter")
    D.utils.verify_str_arg("c", "letter", ("a", "b"))
    D.utils.verify_str_arg("c", "letter", ("a", "b"), "no {value} among {valid_values}")
    D.utils.verify_str_arg("c", valid_values=("a",), custom_msg="no")
    D.utils.verify_str_arg(3, "letter", ("a", "b"))
    D.utils.verify_str_arg(3)
    D.utils.verify_str_arg(None, "letter", ("a", "b"))
    D.utils.download_url((root / "l.rar").as_uri(), root / "down", "x.rar"); D.utils.list_files(root / "down", "rar")
    D.utils.download_url((root / "l.rar").as_uri(), str(root / "down")); D.utils.list_files(root / "down", "rar")
    D.utils.download_url((root / "l.rar").as_uri(), root / "down", "x.rar", md5="0" * 32)
    D.utils.download_url((root / "none.rar").as_uri(), root / "down")
    D.utils.download_url("no address", root / "down")
    D.utils.download_and_extract_archive((root / "h.zip").as_uri(), root / "down"); D.utils.list_dir(root / "down")
    D.utils.download_and_extract_archive((root / "h.zip").as_uri(), root / "down", root / "out", remove_finished=True); D.utils.list_files(root / "down", "zip"), D.utils.list_files(root / "out", "txt")
"""), names=LENT)  # fmt: skip
_cells += cross("clips", {"videos": {"paths": videos, "clips": clips}}, programs("""
    index(clips)
    [part.tolist() for part in clips.clips]
    index(D.video_utils.VideoClips(paths, 4, 4))
    index(D.video_utils.VideoClips(paths, 5, 1))
    index(D.video_utils.VideoClips(paths, 20, 1))
    index(D.video_utils.VideoClips(paths, 3, 2, frame_rate=5))
    index(D.video_utils.VideoClips(paths, 3, 2, frame_rate=20))
    index(D.video_utils.VideoClips(paths, 3, 2, frame_rate=3.0))
    index(D.video_utils.VideoClips(paths, 3, 2, None, clips.metadata))
    index(D.video_utils.VideoClips(paths[:0], 3, 2))
    clips.compute_clips(4, 3); index(clips)
    clips.compute_clips(2, 1, 5); index(clips)
    clips.get_clip_location(5), clips.get_clip_location(6), clips.num_clips(), len(clips)
    clips.get_clip_location(100)
    [pixels(clips.get_clip(at)) for at in range(clips.num_clips())]
    pixels(clips.get_clip(100))
    [pixels(D.video_utils.VideoClips(paths, 3, 2, frame_rate=5).get_clip(at)) for at in range(3)]
    D.video_utils.VideoClips(paths, 3, 2, output_format="TCHW").get_clip(1)[0].shape
    D.video_utils.VideoClips(paths, 3, 2, output_format="none")
    sorted(clips.metadata)
    [Path(path).name for path in clips.metadata["video_paths"]], clips.metadata["video_fps"]
    clips.subset([1]).num_videos(), clips.subset([1]).num_clips(), clips.subset([]).num_videos()
    D.video_utils.VideoClips(["none.mp4"], 3, 2)
    D.video_utils.unfold(torch.arange(10), 3, 2, 1)
    D.video_utils.unfold(torch.arange(10), 3, 2, 2)
    D.video_utils.unfold(torch.arange(2), 3, 2, 1)
    D.video_utils.unfold(torch.arange(12).view(3, 4), 3, 2, 1)
    D.video_utils.VideoClips.compute_clips_for_video(torch.arange(12), 4, 2, 10.0, 5.0)
    D.video_utils.VideoClips.compute_clips_for_video(torch.arange(12), 4, 2, 10.0, None)
    D.video_utils.VideoClips.compute_clips_for_video(torch.arange(12), 40, 2, 10.0, 10.0)
    list(D.samplers.RandomClipSampler(clips, 2)), len(D.samplers.RandomClipSampler(clips, 2))
    list(D.samplers.RandomClipSampler(clips, 100)), len(D.samplers.RandomClipSampler(clips, 100))
    list(D.samplers.UniformClipSampler(clips, 2)), len(D.samplers.UniformClipSampler(clips, 2))
    list(D.samplers.UniformClipSampler(clips, 100)), len(D.samplers.UniformClipSampler(clips, 100))
    list(D.samplers.UniformClipSampler(clips, 1)), len(D.samplers.UniformClipSampler(clips, 1))
    list(D.samplers.RandomClipSampler(paths, 2))
    list(D.samplers.UniformClipSampler(paths, 2))
    list(D.samplers.DistributedSampler(range(10), 2, 1)), len(D.samplers.DistributedSampler(range(10), 2, 1))
    list(D.samplers.DistributedSampler(range(10), 3, 0, shuffle=True)), len(D.samplers.DistributedSampler(range(10), 3, 0))
    list(D.samplers.DistributedSampler(range(12), 2, 1, group_size=3)), len(D.samplers.DistributedSampler(range(12), 2, 1, False, 3))
    list(D.samplers.DistributedSampler(range(18), 2, 0, shuffle=True, group_size=3))
    list(D.samplers.DistributedSampler(range(10), 2, 1, group_size=3))
    s = D.samplers.DistributedSampler(range(10), 2, 0, shuffle=True); s.set_epoch(3); list(s)
    list(D.samplers.DistributedSampler(D.samplers.UniformClipSampler(clips, 2), 2, 1, group_size=2))
    D.samplers.DistributedSampler(range(10))
"""), names=LENT)  # fmt: skip


# torchvision shows its progress.
SUITE.add(*(dataclasses.replace(cell, printed=False, effects=False) for cell in _cells))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    with listed(sorted):
        SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
