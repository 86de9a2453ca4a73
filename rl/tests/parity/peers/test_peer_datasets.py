"""Data sets hold what torchrl's classes read from the same files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from dataset_subjects import contents, opened, without_texts

from flambeau.core.testing.differential import Suite, cross

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")
for name in ("h5py", "minari", "datasets", "sklearn", "pandas", "pyarrow", "av"):
    pytest.importorskip(name, reason=f"torchrl's data sets need {name}; `nox -s parity -- peers rl` has it")

SUITE = Suite(
    "datasets",
    ours="flambeau.rl.data",
    peer="torchrl.data",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
)
LENT = {"torch": torch, "contents": contents}
KINDS = {
    "d4rl": opened("d4rl"),
    "d4rl-split": opened("d4rl", split_trajs=True),
    "d4rl-terminated": opened("d4rl", use_truncated_as_done=False),
    "minari": opened("minari"),
    "minari-numbers": opened("minari", without_texts),
    "minari-split": opened("minari", without_texts, split_trajs=True),
    "roboset": opened("roboset"),
    "vd4rl": opened("vd4rl"),
    "vd4rl-bytes": opened("vd4rl", totensor=False),
    "gen_dgrl": opened("gen_dgrl"),
    "atari_dqn": opened("atari_dqn"),
    "openml": opened("openml"),
}
PROGRAMS = [
    "contents(d[:])",
    "len(d)",
    "contents(d[1:3])",
    "d.sample().batch_size",
    "d.sample(5).batch_size",
    "d.extend(d[:])",
    "d.add(d[0])",
    "type(d).__name__, d.batch_size if hasattr(d, 'batch_size') else d._batch_size",
]
SUITE.add(*cross("reading", {name: {"d": build} for name, build in KINDS.items()}, PROGRAMS, names=LENT))
STREAMS = {
    "whole": opened("openx", streaming=True, shuffle=False, batch_size=None),
    "slices": opened("openx", streaming=True, shuffle=False, batch_size=6, num_slices=2),
    "padded": opened("openx", streaming=True, shuffle=False, batch_size=10, slice_len=5, pad=True),
}
SUITE.add(*cross("streams", {name: {"d": build} for name, build in STREAMS.items()}, ["contents(d)"], names=LENT))
COLUMNS = {
    "robot": "{'observation.state': torch.zeros(4, 7), 'observation.images.top': torch.zeros(4, 3, 2, 2), "
    "'action': torch.ones(4, 7), 'episode_index': torch.tensor([0, 0, 1, 1]), "
    "'frame_index': torch.tensor([0, 1, 0, 1]), 'task': ['pick'] * 4, 'timestamp': torch.arange(4.0), "
    "'next.done': torch.tensor([False, True] * 2)}",
    "other": "{'a.b': torch.zeros(3), 'next.reward': torch.ones(3), 'next.success': torch.ones(3, dtype=torch.bool)}",
}
SUITE.add(
    *cross(
        "columns",
        {name: {"c": text} for name, text in COLUMNS.items()},
        [
            "contents(datasets.lerobot_columns_to_tensordict(c))",
            "contents(datasets.lerobot_columns_to_tensordict(c, key_map={'a.b': 'c', 'action': ('x', 'y')}))",
            "contents(datasets.LeRobotExperienceReplay.from_columns(c, batch_size=2)[:])",
            "datasets.LeRobotExperienceReplay.from_columns(c, batch_size=2, slice_len=2).sample().batch_size",
            "datasets.lerobot_columns_to_tensordict({})",
        ],
        names=LENT,
    )
)
SUITE.add(
    *cross(
        "names",
        {"of": {"p": "datasets"}},
        [
            "sorted(p.AtariDQNExperienceReplay.available_datasets)",
            "sorted(p.GenDGRLExperienceReplay.available_datasets)",
            "sorted(p.OpenXExperienceReplay.available_datasets)",
            "sorted(p.RobosetExperienceReplay.available_datasets)",
            "p.load_dataset('none:x')",
            "p.load_dataset('none')",
            "p.load_dataset('minari:')",
            "p.register_dataset('minari', print)",
            "p.register_dataset('a:b', print)",
            "p.register_dataset('', print)",
            "p.register_dataset('x1', 'no colon')",
            "p.register_dataset('x2', 3)",
            "p.register_dataset('x3', lambda name, **more: (name, more)); p.load_dataset('x3:a:b', c=1)",
            "p.register_dataset('x4', 'json:dumps'); p.load_dataset('x4:a')",
            "p.AtariDQNExperienceReplay('none/1', 2)",
            "p.RobosetExperienceReplay('none', 2)",
        ],
        names=LENT,
    )
)
CLIPS = {
    "one": "VideoClipRef.from_file('a.mp4', num_frames=10)",
    "several": "VideoClipRef.from_files(['a.mp4', 'b.mp4', 'a.mp4'], num_frames_per_file=[10, 6, 3])",
    "by hand": "VideoClipRef(('a.mp4', 'b.mp4'), frame_index=torch.arange(4), file_id=torch.tensor([0, 0, 1, 1]), "
    "batch_size=[4])",
    "alone": "VideoClipRef('a.mp4', frame_index=torch.arange(4), batch_size=[4])",
}
SUITE.add(
    *cross(
        "clips",
        {name: {"r": text} for name, text in CLIPS.items()},
        [
            "r.frame_index, r.file_id, r.sources, r.batch_size, r.stream, r.auto_decode",
            "r.source",
            "r[1:3].frame_index, r[1:3].sources",
            "r[2].frame_index, r[2].batch_size",
            "torch.stack([r, r]).frame_index",
            *(f"x = r.rebin({bins}, {each}); (x.frame_index, x.file_id, x.batch_size)"
              for bins in (1, 2, 3, 4) for each in (None, 1, 2, 5)),
            "r.rebin(0)",
        ],
        names=LENT,
    )
)  # fmt: skip


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
