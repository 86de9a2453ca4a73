"""The same miniature of a source read by either library's class.

torchrl's classes fetch what they read; here functions that fetch are replaced, so that they find it on this machine.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.machinery
import io
import logging
import os
import sys
import tempfile
import types
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from flambeau.core.testing.server import FileServer
from flambeau.rl._miniatures import IDS, LENGTHS, write_miniature
from flambeau.rl.data.datasets._openx_episodes import episodes

FIRST = {"lerobot": "repo_id", "openml": "name"}
TABLE = "<=50K"


def opened(source, prepare=None, **arguments):
    """A function of the library that opens a source's miniature, changed by `prepare(folder)`."""

    def build(library):
        logging.getLogger("torchrl").setLevel(logging.ERROR)
        root = Path(tempfile.mkdtemp(prefix="flambeau-cell-"))
        write_miniature(source, root)
        if prepare is not None:
            prepare(Path(f"{root / IDS[source]}.sources"))
        given = {"batch_size": 2} | arguments
        if library.ours:
            return _ours(source, root, given)
        with contextlib.redirect_stderr(io.StringIO()):  # its progress bars
            return globals()[f"_peer_{source}"](root, f"{root / IDS[source]}.sources", given)

    return build


def without_texts(folder):
    """Minari's miniature without its missions."""
    import h5py

    with h5py.File(folder / "walk-v0" / "data" / "main_data.hdf5", "a") as file:
        for episode in file.values():
            del episode["observations/mission"]


def _ours(source, root, given):
    from flambeau.rl.data.datasets import load_dataset

    if source == "openx" and not given.get("streaming"):
        given["streaming"] = False
    if not given.get("streaming"):
        given["download"] = False
    data = load_dataset(f"{source}:{IDS[source]}", root=root, **given)
    return list(data) if given.get("streaming") else data


def _peer(name):
    return getattr(importlib.import_module("torchrl.data.datasets"), name)


def _peer_d4rl(root, sources, given):
    kind = _peer("D4RLExperienceReplay")
    tables = [value for module in ("d4rl", "d4rl_infos") for value in _dictionaries(module) if IDS["d4rl"] in value]
    address = Path(sources, "maze2d-umaze-sparse-v1.hdf5").as_uri()
    patches = [mock.patch.dict(table, {IDS["d4rl"]: address}) for table in tables]
    with mock.patch.dict(os.environ, {"D4RL_DATASET_DIR": str(root / "raw")}):
        for patch in patches:
            patch.start()
        try:
            return kind(IDS["d4rl"], root=root / "peer", direct_download=True, **given)
        finally:
            for patch in patches:
                patch.stop()


def _dictionaries(module):
    found = importlib.import_module(f"torchrl.data.datasets.{module}")
    return [value for value in vars(found).values() if isinstance(value, dict)]


def _peer_minari(root, sources, given):
    target = root / "minari" / IDS["minari"]
    target.parent.mkdir(parents=True)
    target.symlink_to(Path(sources, "walk-v0"))
    with mock.patch.dict(os.environ, {"MINARI_DATASETS_PATH": str(root / "minari")}):
        kind = _peer("MinariExperienceReplay")
        return kind(IDS["minari"], root=root / "peer", load_from_local_minari=True, **given)


def _peer_roboset(root, sources, given):
    kind = _peer("RobosetExperienceReplay")
    files = sorted(str(path) for path in Path(sources).glob("*.h5"))
    with mock.patch.object(kind, "_download_from_huggingface", lambda self, folder: files):
        return kind(IDS["roboset"], root=root / "peer", **given)


def _peer_vd4rl(root, sources, given):
    kind = _peer("VD4RLExperienceReplay")
    names = sorted(path.name for path in Path(sources).iterdir())
    name = IDS["vd4rl"]
    with (
        mock.patch.object(kind, "_available_datasets", classmethod(lambda cls: [name])),
        mock.patch.object(kind, "_parse_datasets", classmethod(lambda cls: {name: [Path(each) for each in names]})),
        mock.patch.object(
            kind, "_hf_hub_download", classmethod(lambda cls, folder, file, *, tmpdir: str(Path(sources, file)))
        ),
    ):
        return kind(name, root=root / "peer", **given)


def _peer_gen_dgrl(root, sources, given):
    kind = _peer("GenDGRLExperienceReplay")
    body = Path(sources, "bigfish.tar.xz").read_bytes()
    with (
        FileServer({"1M/level_200/expert/bigfish.tar.xz": body}) as server,
        mock.patch.object(kind, "BASE_URL", server.url("").rstrip("/")),
        mock.patch.object(kind, "_get_category_len", classmethod(lambda cls, name: sum(LENGTHS))),
    ):
        return kind(IDS["gen_dgrl"], root=root / "peer", **given)


_GSUTIL = """#!{python}
import os, shutil, sys
words = [word for word in sys.argv[1:] if not word.startswith("-")]
here = lambda address: address.replace("gs://atari-replay-datasets/dqn/Pong/1", {folder!r})
if words[0] == "ls":
    print("\\n".join(f"{{words[-1]}}/{{name}}" for name in sorted(os.listdir(here(words[-1])))))
if words[0] == "cp":
    for word in words[1:-1]:
        shutil.copy(here(word), words[-1])
"""


def _peer_atari_dqn(root, sources, given):
    kind = _peer("AtariDQNExperienceReplay")
    program = root / "bin" / "gsutil"
    program.parent.mkdir()
    program.write_text(_GSUTIL.format(python=sys.executable, folder=str(sources)))
    program.chmod(0o755)
    with (
        mock.patch.dict(os.environ, {"PATH": f"{program.parent}:{os.environ['PATH']}"}),
        mock.patch.object(kind, "_max_runs", 2),
    ):
        return kind(IDS["atari_dqn"], root=root / "peer", **given)


def _peer_openml(root, sources, given):
    import pandas

    rows = [line.split(",") for line in Path(sources, "MagicTelescope.arff").read_text().splitlines()[6:]]
    features = pandas.DataFrame(
        {"fLength:": [float(row[0]) for row in rows], "fWidth": [float(row[1]) for row in rows]}
    )
    classes = pandas.Series(pandas.Categorical([row[2] for row in rows]))
    with mock.patch("sklearn.datasets.fetch_openml", lambda *args, **options: (features, classes)):
        return _peer("OpenMLExperienceReplay")(IDS["openml"], root=root / "peer", **given)


def _peer_openx(root, sources, given):
    module = importlib.import_module("torchrl.data.datasets.openx")
    (shard,) = Path(sources).iterdir()
    rows = [{"data.pickle": {"steps": steps}} for _, steps in episodes(shard)]

    class Rows(list):
        def shuffle(self, *args, **options):
            return self

        def __iter__(self):
            return iter(copy.deepcopy(list(super().__iter__())))  # what the peer reads, it changes

    with (
        mock.patch.dict(sys.modules, _pictures()),
        mock.patch.object(module, "_has_tv", True),
        mock.patch("datasets.load_dataset", lambda *args, **options: Rows(rows)),
    ):
        # Batches are made while the pictures can be read.
        data = _peer("OpenXExperienceReplay")(IDS["openx"], **given)
        return [batch for batch in data]  # noqa: C416 the peer's length raises an error, which `list` asks for


def _pictures():
    """The one function of torchvision that the peer needs."""
    made = {}
    for name in (
        "torchvision",
        "torchvision.transforms",
        "torchvision.transforms.v2",
        "torchvision.transforms.v2.functional",
    ):
        made[name] = types.ModuleType(name)
        made[name].__path__, made[name].__spec__ = [], importlib.machinery.ModuleSpec(name, None)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(made[parent], last, made[name])
    made["torchvision.transforms.v2.functional"].pil_to_tensor = lambda picture: (
        torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()
    )
    return made


def contents(steps):
    """What steps hold, as plain values."""
    if isinstance(steps, list):
        return [contents(each) for each in steps]
    found = {}
    for key in sorted(steps.keys(True), key=str):
        value = steps.get(key)
        name = ".".join(key) if isinstance(key, tuple) else key
        if isinstance(value, torch.Tensor):
            plain = torch.as_tensor(value).as_subclass(torch.Tensor).clone()
            found[name] = plain.to(torch.float64) if plain.dtype.is_floating_point and name == "discount" else plain
        elif (hasattr(value, "tolist") and not hasattr(value, "keys")) or type(value).__name__ == "NonTensorStack":
            found[name] = value.tolist()
    found["batch size"] = tuple(steps.batch_size)
    return found
