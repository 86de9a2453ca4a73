"""Data sets in miniature: a few steps in each source's true file format, placed where files placed by hand belong."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["write_miniature"]

# Source -> (data set, lengths of its episodes).
LENGTHS = (3, 5)
IDS = {
    "atari_dqn": "Pong/1",
    "d4rl": "maze2d-umaze-v1",
    "gen_dgrl": "bigfish-1M_E",
    "lerobot": "flambeau/miniature",
    "minari": "toy/walk-v0",
    "openml": "magic",
    "openx": "cmu_stretch",
    "roboset": "DAPG(expert)/door_v2d-v1",
    "vd4rl": "main/walker_walk/random/64px",
}


def write_miniature(source: str, root: Path) -> str:
    """Write a data set's published files to `<root>/<data set>.sources`; the data set's name.

    Args:
        source: one of `IDS`.
        root: folder of the source's data sets.
    """
    folder = root / f"{IDS[source]}.sources"
    folder.mkdir(parents=True)
    _WRITERS[source](folder)
    return IDS[source]


def _hdf5(path: Path, arrays: dict[str, Any]) -> None:
    import h5py

    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, value in arrays.items():
            file[name] = value


def _d4rl(folder: Path) -> None:
    count = sum(LENGTHS)
    ends = np.cumsum(LENGTHS) - 1
    steps = np.arange(count)
    _hdf5(
        folder / "maze2d-umaze-sparse-v1.hdf5",
        {
            "observations": np.stack([steps, 2 * steps], 1).astype(np.float32),
            "actions": np.stack([steps, -steps], 1).astype(np.float32),
            "rewards": steps.astype(np.float32),
            "terminals": steps == ends[0],
            "timeouts": steps == ends[1],
            "infos/qpos": np.stack([steps, steps], 1).astype(np.float64),
            "metadata/algorithm": b"SAC",
            "metadata/iteration": np.array(3),
        },
    )


def _minari(folder: Path) -> None:
    arrays: dict[str, Any] = {}
    for number, length in enumerate(LENGTHS):
        steps, prefix = np.arange(length + 1), f"episode_{number}"
        arrays |= {
            f"{prefix}/observations/position": np.stack([steps, steps + number], 1).astype(np.float64),
            f"{prefix}/observations/mission": [f"go to {step}".encode() for step in steps],
            f"{prefix}/actions": steps[:-1] % 2,
            f"{prefix}/rewards": steps[1:].astype(np.float64),
            f"{prefix}/terminations": (steps[1:] == length) & (number == 0),
            f"{prefix}/truncations": (steps[1:] == length) & (number == 1),
            f"{prefix}/infos/speed": steps / 2,
        }
    _hdf5(folder / "walk-v0" / "data" / "main_data.hdf5", arrays)
    position = {"type": "Box", "dtype": "float64", "shape": [2], "low": [0.0, 0.0], "high": [9.0, 9.0]}
    text = {"type": "Text", "max_length": 20, "min_length": 1, "charset": "go t0123456789"}
    described = {
        "total_episodes": len(LENGTHS), "total_steps": sum(LENGTHS), "data_format": "hdf5", "dataset_id": IDS["minari"],
        "minari_version": "0.5.4",
        "observation_space": json.dumps({"type": "Dict", "subspaces": {"position": position, "mission": text}}),
        "action_space": json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": 2}),
    }  # fmt: skip
    (folder / "walk-v0" / "data" / "metadata.json").write_text(json.dumps(described))


def _roboset(folder: Path) -> None:
    for seed in range(2):
        arrays: dict[str, Any] = {}
        for trial, length in enumerate(LENGTHS):
            steps = np.arange(length)
            arrays |= {
                f"Trial{trial}/observations": np.stack([steps, steps + seed], 1).astype(np.float64),
                f"Trial{trial}/actions": steps[:, None].astype(np.float64),
                f"Trial{trial}/rewards": steps.astype(np.float64),
                f"Trial{trial}/done": np.zeros(length, bool),
                f"Trial{trial}/time": steps / 10,
                f"Trial{trial}/env_infos/solved": steps > 1,
            }
        _hdf5(folder / f"door_seed{seed}.h5", arrays)


def _vd4rl(folder: Path) -> None:
    for number, length in enumerate(LENGTHS):
        steps = np.arange(length)
        np.savez(
            folder / f"episode_{number}-{length}.npz",
            image=np.zeros((length, 64, 64, 3), np.uint8) + steps[:, None, None, None].astype(np.uint8),
            action=np.stack([steps, -steps], 1).astype(np.float32),
            reward=steps.astype(np.float32),
            discount=np.ones(length, np.float32),
            is_first=steps == 0,
            is_last=steps == length - 1,
            is_terminal=(steps == length - 1) & (number == 0),
            height=steps.astype(np.float32),
        )


def _gen_dgrl(folder: Path) -> None:
    with tarfile.open(folder / "bigfish.tar.xz", "w:xz") as archive:
        for number, length in enumerate(LENGTHS):
            steps = np.arange(length + 1)
            episode = {
                "observations": np.zeros((length + 1, 64, 64, 3), np.uint8)
                + steps[:, None, None, None].astype(np.uint8),
                "actions": steps[:-1],
                "rewards": steps[1:].astype(np.float64),
                "dones": steps[1:] == length,
            }
            content = io.BytesIO()
            np.save(content, episode, allow_pickle=True)  # type: ignore[arg-type]  # an object, as it is published
            _add(archive, f"bigfish/episode_{number}_{length}.npy", content.getvalue())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _atari_dqn(folder: Path) -> None:
    (folder / "replay_logs").mkdir()
    for run in range(2):
        count = sum(LENGTHS)
        steps = np.arange(count)
        arrays: dict[str, Any] = {
            "$store$_observation": np.zeros((count, 84, 84), np.uint8)
            + (steps + 100 * run)[:, None, None].astype(np.uint8),
            "$store$_action": steps.astype(np.int32) % 3,
            "$store$_reward": steps.astype(np.float32),
            "$store$_terminal": np.isin(steps, np.cumsum(LENGTHS) - 1).astype(np.uint8),
            "add_count": np.array(count),
            "invalid_range": np.arange(3),
        }
        for name, value in arrays.items():
            with gzip.open(folder / "replay_logs" / f"{name}_ckpt.{run}.gz", "wb") as file:
                np.save(file, value)


def _openml(folder: Path) -> None:
    rows = [f"{number}.5,{number * number},{'g' if number % 2 else 'h'}" for number in range(6)]
    head = "% a comment\n@relation MagicTelescope\n@attribute 'fLength:' numeric\n@attribute fWidth REAL\n"
    content = f"{head}@attribute class {{g,h}}\n@data\n" + "\n".join(rows) + "\n"
    (folder / "MagicTelescope.arff").write_text(content)


def _openx(folder: Path) -> None:
    with tarfile.open(folder / "cmu_stretch_00000.tar", "w") as archive:
        for number, length in enumerate(LENGTHS):
            steps = [
                {
                    "observation": {
                        "image": {"bytes": _png(step), "path": None},
                        "state": np.full(4, step, np.float32),
                    },
                    "action": np.full(7, step, np.float64),
                    "is_first": step == 0,
                    "is_last": step == length - 1,
                    "is_terminal": step == length - 1,
                    "reward": np.float32(step),
                    "discount": 1.0,
                    "language_instruction": f"task {number}",
                }
                for step in range(length)
            ]
            _add(archive, f"cmu_stretch_{number}.data.pickle", pickle.dumps({"steps": steps}))


def _png(value: int) -> bytes:
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(np.full((8, 6, 3), value, np.uint8)).save(content, "PNG")
    return content.getvalue()


def _lerobot(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    camera = "observation.images.top"
    video = {"dtype": "video", "shape": [16, 32, 3], "names": ["height", "width", "channel"]}
    described = {
        "codebase_version": "v2.1", "fps": 10, "chunks_size": 1000, "total_episodes": len(LENGTHS),
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": {"action": {"dtype": "float32", "shape": [2]}, camera: video},
    }  # fmt: skip
    for name in ("meta", "data/chunk-000", f"videos/chunk-000/{camera}"):
        (folder / name).mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(described))
    (folder / "meta" / "tasks.jsonl").write_text(
        '{"task_index": 0, "task": "push"}\n{"task_index": 1, "task": "pull"}\n'
    )
    for number, length in enumerate(LENGTHS):
        steps = np.arange(length)
        pairs = pa.array([[float(step), -float(step)] for step in steps], pa.list_(pa.float32()))
        table = pa.table(
            {
                "observation.state": pairs,
                "action": pairs,
                "episode_index": np.full(length, number),
                "frame_index": steps,
                "timestamp": (steps / 10).astype(np.float32),
                "task_index": np.full(length, number),
                "next.done": steps == length - 1,
            }
        )
        pa.parquet.write_table(table, folder / "data" / "chunk-000" / f"episode_{number:06d}.parquet")
        _video(
            folder / "videos" / "chunk-000" / camera / f"episode_{number:06d}.mp4", [10 * int(step) for step in steps]
        )


def _video(path: Path, values: list[int]) -> None:
    """A video with a plain grey frame for each value."""
    import av

    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 32, 16, "yuv420p", 3
        for value in values:
            frame = av.VideoFrame.from_ndarray(np.full((16, 32, 3), value, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


_WRITERS: dict[str, Callable[[Path], None]] = {
    "atari_dqn": _atari_dqn,
    "d4rl": _d4rl,
    "gen_dgrl": _gen_dgrl,
    "lerobot": _lerobot,
    "minari": _minari,
    "openml": _openml,
    "openx": _openx,
    "roboset": _roboset,
    "vd4rl": _vd4rl,
}
