"""Data sets: read from miniatures in their true formats, whole on the disk or not there, and never written to."""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import pickle
import resource
import signal
import tarfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from flambeau.core.datasets import list_datasets
from flambeau.core.errors import DatasetMissingError, DiskFullError, HubWarning
from flambeau.core.testing.server import FileServer
from flambeau.data.tensordict import TensorDict
from flambeau.rl._miniatures import IDS, LENGTHS, write_miniature
from flambeau.rl.conformance import dataset_fixture
from flambeau.rl.data import ReplayBuffer, ReplayBufferEnsemble
from flambeau.rl.data.datasets import (
    AtariDQNExperienceReplay,
    D4RLExperienceReplay,
    GenDGRLExperienceReplay,
    LeRobotExperienceReplay,
    MinariExperienceReplay,
    OpenMLExperienceReplay,
    OpenXExperienceReplay,
    RobosetExperienceReplay,
    VD4RLExperienceReplay,
    lerobot_columns_to_tensordict,
    load_dataset,
    register_dataset,
)
from flambeau.rl.data.datasets import _published_files as published
from flambeau.rl.data.datasets._arff import read_arff
from flambeau.rl.data.datasets._lerobot_files import LeRobotFiles
from flambeau.rl.data.datasets._local_copies import MARK
from flambeau.rl.data.datasets._pickled_arrays import load_pickle
from flambeau.rl.errors import DatasetFormatError, UnsafePickleError

STEPS = {"d4rl": sum(LENGTHS) - 1, "atari_dqn": 2 * sum(LENGTHS), "roboset": 2 * sum(LENGTHS), "openml": 6}
FIRST = {"lerobot": "repo_id", "openml": "name"}
WITH_EPISODES = [source for source in IDS if source not in ("openml", "lerobot")]


def opened(source, root, **changes):
    """The miniature of a source as a data set."""
    config = dataset_fixture(source, root)
    for given in ("totensor", "decode_video"):
        config.pop(given, None)
    config |= changes
    return load_dataset(f"{source}:{config.pop(FIRST.get(source, 'dataset_id'))}", **config)


def reopened(source, root, **changes):
    config = {"root": root, "batch_size": 2, "download": False}
    if source == "openx":
        config["streaming"] = False
    return load_dataset(f"{source}:{IDS[source]}", **config | changes)


@pytest.mark.parametrize("source", IDS)
def test_every_source_gives_all_its_steps(source, tmp_path):
    data = opened(source, tmp_path)
    assert len(data) == STEPS.get(source, sum(LENGTHS))
    assert data.sample(3).batch_size == torch.Size([3])


@pytest.mark.parametrize("source", WITH_EPISODES)
def test_flags_and_rewards_have_a_dimension_of_their_own_and_done_is_either_end(source, tmp_path):
    steps = opened(source, tmp_path)[:]
    for key in [*(("next", name) for name in ("done", "terminated", "truncated", "reward")), "done", "terminated"]:
        assert steps.get(key).shape == (len(steps), 1), key
    assert steps["next", "done"].dtype == torch.bool
    assert torch.equal(steps["next", "done"], steps["next", "terminated"] | steps["next", "truncated"])


@pytest.mark.parametrize("source", [name for name in WITH_EPISODES if name != "d4rl"])
def test_no_episode_begins_with_an_end(source, tmp_path):
    steps = opened(source, tmp_path)[:]
    assert not (steps["done"] | steps["terminated"] | steps["truncated"]).any()


@pytest.mark.parametrize("source", [name for name in WITH_EPISODES if name != "openx"])
def test_the_next_observation_is_that_of_the_following_step_within_an_episode(source, tmp_path):
    steps = opened(source, tmp_path)[:]
    key = "pixels" if source == "vd4rl" else "observation"
    now, follows = steps[key], steps["next", key]
    if source == "minari":
        now, follows = now["position"], follows["position"]
    if source == "vd4rl":
        now, follows = now.float(), follows.float()
    inside = ~steps["next", "done"].flatten()[:-1]
    if source == "atari_dqn":
        inside[sum(LENGTHS) - 1] = False  # another checkpoint begins
    assert torch.equal(follows[:-1][inside], now[1:][inside])


def test_an_unwritten_next_observation_is_zero(tmp_path):
    for source, key in (("d4rl", "observation"), ("atari_dqn", "observation"), ("roboset", "observation")):
        steps = opened(source, tmp_path / source)[:]
        assert not steps["next", key][steps["next", "done"].flatten()].any()


@pytest.mark.parametrize("source", IDS)
def test_data_sets_are_read_only(source, tmp_path):
    data = opened(source, tmp_path)
    with pytest.raises(RuntimeError, match="read only"):
        data.extend(data[:2])


def test_all_sources_are_in_the_registry():
    assert {f"rl/{source}" for source in IDS} <= set(list_datasets(plugin="rl"))


def test_an_unknown_data_set_says_which_names_are_near():
    with pytest.raises(ValueError, match="halfcheetah-medium-v2"):
        D4RLExperienceReplay("halfcheetah-medum-v2", 4)


# The copy on the disk


def test_a_copy_is_used_again_without_its_sources(tmp_path):
    first = opened("minari", tmp_path)[:]
    for path in sorted((tmp_path / f"{IDS['minari']}.sources").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (tmp_path / f"{IDS['minari']}.sources").rmdir()
    again = reopened("minari", tmp_path)[:]
    assert (again == first).all()
    assert again["observation", "mission"] == first["observation", "mission"]


def test_what_is_not_there_and_may_not_be_fetched_is_reported_with_its_place(tmp_path):
    with pytest.raises(DatasetMissingError, match="download=True") as caught:
        reopened("minari", tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("damage", ["shorter", "missing", "unmarked"])
def test_a_damaged_copy_is_made_anew_and_never_used(damage, tmp_path):
    whole = opened("d4rl", tmp_path)[:].clone()
    folder = tmp_path / IDS["d4rl"]
    if damage == "unmarked":
        (folder / MARK).unlink()
    elif damage == "missing":
        (folder / "action.memmap").unlink()
    else:
        (folder / "action.memmap").write_bytes((folder / "action.memmap").read_bytes()[:-4])
    assert (reopened("d4rl", tmp_path)[:] == whole).all()


def test_a_conversion_that_fails_leaves_nothing_that_looks_like_a_copy(tmp_path, monkeypatch):
    config = dataset_fixture("minari", tmp_path)

    def fails(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("flambeau.rl.data.datasets.minari_data.episodes", fails)
    with pytest.raises(KeyboardInterrupt):
        MinariExperienceReplay(**config)
    assert not (tmp_path / IDS["minari"]).exists()


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path):
    config = dataset_fixture("gen_dgrl", tmp_path)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(False)

    def run():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            GenDGRLExperienceReplay(**config)
        except DiskFullError as error:
            sender.send(str(error))

    process = context.Process(target=run)
    process.start()
    process.join(60)
    assert receiver.poll(0)
    assert "make room" in receiver.recv()
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")) == [
        "bigfish-1M_E.sources"
    ]


def test_a_mark_keeps_the_digest_of_each_file_that_a_copy_was_made_of(tmp_path):
    opened("gen_dgrl", tmp_path)
    mark = json.loads((tmp_path / IDS["gen_dgrl"] / MARK).read_text())
    assert len(mark["sources"]["bigfish.tar.xz"]["sha256"]) == 64
    assert mark["files"]["observation.memmap"] == sum(LENGTHS) * 64 * 64 * 3


def test_a_folder_of_torchrl_is_taken_with_a_warning_where_nothing_may_be_fetched(tmp_path):
    steps = {"observation": torch.arange(4.0), "next": {"done": torch.ones(4, 1, dtype=torch.bool)}}
    TensorDict(steps, [4]).memmap(tmp_path / "maze2d-umaze-v1")
    with pytest.warns(HubWarning, match="nothing says whether it is whole"):
        data = D4RLExperienceReplay("maze2d-umaze-v1", 2, root=tmp_path, download=False)
    assert len(data) == 4


def test_force_makes_a_copy_anew(tmp_path):
    opened("openx", tmp_path)
    folder = tmp_path / IDS["openx"]
    before = (folder / MARK).stat().st_ino
    OpenXExperienceReplay(IDS["openx"], 2, root=tmp_path, download=False)
    assert (folder / MARK).stat().st_ino == before


# Fetching


def served(root, source):
    """A server of a miniature's files, and the names that they have there."""
    write_miniature(source, root)
    folder = root / f"{IDS[source]}.sources"
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_file_is_fetched_converted_and_removed(tmp_path, monkeypatch):
    bodies = served(tmp_path / "there", "gen_dgrl")
    with FileServer({"1M/level_200/expert/bigfish.tar.xz": bodies["bigfish.tar.xz"]}) as server:
        monkeypatch.setattr(GenDGRLExperienceReplay, "BASE_URL", server.url("").rstrip("/"))
        data = GenDGRLExperienceReplay("bigfish-1M_E", 2, root=tmp_path / "here")
        asked = len(server.log)
        assert len(GenDGRLExperienceReplay("bigfish-1M_E", 2, root=tmp_path / "here")) == len(data)
        assert len(server.log) == asked
    assert sorted(path.name for path in (tmp_path / "here").iterdir() if not path.name.endswith(".lock")) == [
        "bigfish-1M_E"
    ]


def test_an_archive_that_came_in_part_is_not_taken_for_all_of_it(tmp_path, monkeypatch):
    body = served(tmp_path / "there", "gen_dgrl")["bigfish.tar.xz"]
    with FileServer({"1M/level_200/expert/bigfish.tar.xz": body[: len(body) // 2]}) as server:
        monkeypatch.setattr(GenDGRLExperienceReplay, "BASE_URL", server.url("").rstrip("/"))
        with pytest.raises(Exception, match="bigfish"):
            GenDGRLExperienceReplay("bigfish-1M_E", 2, root=tmp_path / "here")
    assert not (tmp_path / "here" / "bigfish-1M_E").exists()


def test_openml_is_asked_for_the_table_and_its_digest(tmp_path, monkeypatch):
    table = served(tmp_path / "there", "openml")["MagicTelescope.arff"]
    with FileServer({"magic.arff": table}) as tables:
        described = {
            "url": tables.url("magic.arff"),
            "md5_checksum": hashlib.md5(table).hexdigest(),
            "default_target_attribute": "class",
        }
        answers = {
            "list/data_name/MagicTelescope/data_version/1/limit/2": {"data": {"dataset": [{"did": 1120}]}},
            "1120": {"data_set_description": described},
        }
        with FileServer({name: json.dumps(value).encode() for name, value in answers.items()}) as server:
            monkeypatch.setattr(OpenMLExperienceReplay, "API_URL", server.url("").rstrip("/"))
            data = OpenMLExperienceReplay("magic", 2, root=tmp_path / "here")
    assert (len(data), data.max_outcome_val) == (6, 1)


def test_the_bucket_of_atari_is_gone_and_the_error_says_what_to_do(tmp_path, monkeypatch):
    with FileServer({}) as server:
        monkeypatch.setattr(AtariDQNExperienceReplay, "BASE_URL", server.url("").rstrip("/"))
        with pytest.raises(DatasetMissingError, match=r"removed in 2026.*BASE_URL.*replay_logs"):
            AtariDQNExperienceReplay("Pong/1", 2, root=tmp_path)


def test_files_of_a_repository_are_found_wherever_its_folder_lies(monkeypatch):
    monkeypatch.setattr(
        published, "listing", lambda repository: ("x/main/walk/a.npz", "x/main/walk/b.txt", "main/run/a.npz")
    )
    assert published.folder_files("o/n", "main/walk", (".npz",)) == ["x/main/walk/a.npz"]


# Sources


def test_minari_reads_what_minari_writes(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari", reason="needs minari, of the extra `tests`")
    from gymnasium import spaces

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    space = spaces.Dict(
        {"place": spaces.Box(-9, 9, (2,), np.float64), "mission": spaces.Text(30), "room": spaces.Discrete(4)}
    )

    def episode(number, length):
        steps = np.arange(length + 1)
        seen = {
            "place": np.stack([steps, steps], 1).astype(np.float64),
            "mission": [f"go {at}" for at in steps],
            "room": steps % 4,
        }
        ends = [False] * (length - 1) + [True]
        return minari.data_collector.EpisodeBuffer(
            id=number, observations=seen, actions=steps[:-1] % 2, rewards=list(steps[1:] * 1.0),
            terminations=ends, truncations=[False] * length, infos={"speed": steps / 2},
        )  # fmt: skip

    for layout in ("hdf5", "arrow"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = minari.create_dataset_from_buffers(
                dataset_id=f"toy/{layout}-v0", buffer=[episode(at, 2 + at) for at in range(3)], data_format=layout,
                observation_space=space, action_space=spaces.Discrete(2), env=None,
            )  # fmt: skip
        data = MinariExperienceReplay(f"toy/{layout}-v0", 2, root=tmp_path / layout, load_from_local_minari=True)
        steps = data[:]
        assert len(steps) == made.total_steps == 9
        if layout == "hdf5":
            written = list(made.iterate_episodes())  # of the other layout, minari itself cannot read numbers of infos
        for number, recorded in enumerate(written):
            chosen = steps[steps["episode"] == number]
            assert np.array_equal(chosen["observation", "place"], recorded.observations["place"][:-1])
            assert np.array_equal(chosen["next", "observation", "place"], recorded.observations["place"][1:])
            assert chosen["observation", "mission"] == list(recorded.observations["mission"][:-1])
            assert np.array_equal(chosen["action"], recorded.actions)
            assert np.array_equal(chosen["next", "reward"].flatten(), recorded.rewards)
            assert np.array_equal(chosen["info", "speed"], recorded.infos["speed"][:-1])
        assert data.metadata["observation_space"]["room"].n == 4


def test_pictures_of_minari_are_decoded(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari", reason="needs minari, of the extra `tests`")
    from gymnasium import spaces

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    pictures = np.zeros((3, 40, 40, 3), np.uint8) + np.arange(3, dtype=np.uint8)[:, None, None, None] * 50
    buffer = minari.data_collector.EpisodeBuffer(
        id=0, observations=pictures, actions=np.zeros(2, int), rewards=[0.0, 1.0], terminations=[False, True],
        truncations=[False, False], infos={},
    )  # fmt: skip
    for layout in ("hdf5", "arrow"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            minari.create_dataset_from_buffers(
                dataset_id=f"toy/{layout}-v0", buffer=[buffer], data_format=layout, env=None,
                observation_space=spaces.Box(0, 255, (40, 40, 3), np.uint8), action_space=spaces.Discrete(2),
            )  # fmt: skip
        steps = MinariExperienceReplay(f"toy/{layout}-v0", 2, root=tmp_path / layout, load_from_local_minari=True)[:]
        assert (steps["next", "observation"].float() - torch.tensor([50.0, 100.0])[:, None, None, None]).abs().max() < 3


def test_d4rl_keeps_what_the_file_says_of_itself_apart(tmp_path):
    data = opened("d4rl", tmp_path)
    assert data.metadata == {"algorithm": "SAC", "iteration": 3}
    assert "metadata" not in set(data[:].keys())


def test_a_truncated_episode_is_done_if_it_is_asked_for(tmp_path):
    assert opened("d4rl", tmp_path / "a")[:]["next", "done"].sum() == 1  # the file's last step is left out
    assert opened("vd4rl", tmp_path / "b")[:]["next", "truncated"].flatten().nonzero().flatten().tolist() == [7]


def test_the_package_d4rl_is_asked_for_where_it_is_needed(tmp_path):
    with pytest.raises(ImportError, match="d4rl, which is not installed"):
        D4RLExperienceReplay("maze2d-umaze-v1", 2, root=tmp_path, from_env=True)
    with pytest.raises(ValueError, match="terminate_on_end"):
        D4RLExperienceReplay("maze2d-umaze-v1", 2, root=tmp_path, terminate_on_end=True)


def test_a_file_with_other_shapes_is_left_out_and_named(tmp_path):
    config = dataset_fixture("vd4rl", tmp_path)
    folder = tmp_path / f"{IDS['vd4rl']}.sources"
    np.savez(folder / "z-broken.npz", image=np.zeros((2, 32, 32, 3), np.uint8), action=np.zeros((2, 2), np.float32),
             reward=np.zeros(2, np.float32), discount=np.ones(2, np.float32), is_first=np.ones(2, bool),
             is_last=np.ones(2, bool), is_terminal=np.ones(2, bool), height=np.ones(2, np.float32))  # fmt: skip
    (folder / "z-no-archive.npz").write_bytes(b"not an archive")
    with pytest.warns(HubWarning, match=r"2 of 4 files are left out: .*z-broken.npz.*pixels.*z-no-archive.npz"):
        assert len(VD4RLExperienceReplay(**config)) == sum(LENGTHS)


def test_pixels_of_batches_are_floating_point_and_resized(tmp_path):
    data = opened("vd4rl", tmp_path, image_size=8)
    batch = data.sample(3)
    assert batch["pixels"].shape == (3, 3, 8, 8)
    assert batch["pixels"].dtype == torch.float32
    assert data._storage[:]["pixels"].dtype == torch.uint8


def test_episodes_of_roboset_alternate_between_seeds(tmp_path):
    steps = RobosetExperienceReplay(**dataset_fixture("roboset", tmp_path))[:]
    assert steps["episode"].tolist() == [0] * 6 + [1] * 10
    assert steps["seed"].tolist() == [0] * 3 + [1] * 3 + [0] * 5 + [1] * 5
    assert steps["next", "truncated"].flatten().nonzero().flatten().tolist() == [2, 5, 10, 15]


def test_what_an_environment_was_configured_with_is_no_entry_of_steps(tmp_path):
    import h5py

    config = dataset_fixture("roboset", tmp_path)
    for path in (tmp_path / f"{IDS['roboset']}.sources").iterdir():
        with h5py.File(path, "a") as file:
            file["Trial0/config"] = b"{}"
    assert "config" not in set(RobosetExperienceReplay(**config)[:].keys())


def test_slices_of_atari_lie_in_one_episode_of_one_checkpoint(tmp_path):
    data = opened("atari_dqn", tmp_path, batch_size=6, slice_len=3)
    for _ in range(20):
        index = data.sample()["index"].reshape(2, 3, -1)[..., 0]
        assert torch.equal(index, index[:, :1] + torch.arange(3))
        episodes = data.episodes[index]
        assert (episodes == episodes[:, :1]).all()
    assert data.metadata["0"]["add_count"] == sum(LENGTHS)


def test_a_damaged_checkpoint_is_named(tmp_path):
    config = dataset_fixture("atari_dqn", tmp_path)
    path = tmp_path / "Pong/1.sources/replay_logs/$store$_reward_ckpt.1.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DatasetFormatError, match=r"checkpoint 1.*reward_ckpt.1.gz"):
        AtariDQNExperienceReplay(**config)


def test_features_are_standardized_and_classes_numbered(tmp_path):
    steps = opened("openml", tmp_path)[:]
    assert steps["X"].dtype == torch.float64
    torch.testing.assert_close(steps["X"].mean(0), torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close(steps["X"].std(0, correction=0), torch.ones(2, dtype=torch.float64))
    assert steps["y"].tolist() == [1, 0, 1, 0, 1, 0]


def test_arff_knows_quotes_commas_and_missing_values(tmp_path):
    path = tmp_path / "table.arff"
    path.write_text(
        "@RELATION x\n@attribute 'a b' REAL\n@attribute c {'x, y',z}\n\n@DATA\n1, 'x, y'\n% no row\n?,z\n3,?\n"
    )
    table = read_arff(path)
    assert (table.names, table.rows) == (["a b", "c"], 3)
    assert table.columns["c"].tolist() == ["x, y", "z", None]
    assert np.isnan(table.columns["a b"][1])
    path.write_text("@attribute a REAL\n@data\n1,2\n")
    with pytest.raises(DatasetFormatError, match="row 1 has 2 values, expected 1"):
        read_arff(path)


def stream(root, **changes):
    write_miniature("openx", root)
    return OpenXExperienceReplay(IDS["openx"], root=root, shuffle=False, streaming=True, **changes)


def test_a_stream_gives_whole_trajectories_and_keeps_nothing(tmp_path):
    data = stream(tmp_path)
    assert [len(trajectory) for trajectory in data] == list(LENGTHS)
    assert not (tmp_path / IDS["openx"]).exists()
    first = next(iter(data))
    assert first["observation", "image"].shape == (3, 3, 8, 6)
    assert first["language_instruction"] == ["task 0"] * 3
    with pytest.raises(TypeError, match="not known"):
        len(data)


def test_slices_of_a_stream_are_cut_marked_and_padded(tmp_path):
    data = stream(tmp_path / "a", batch_size=4, num_slices=2)
    (batch,) = list(data)
    assert batch["episode"].tolist() == [0, 0, 1, 1]
    assert batch["next", "done"].flatten().tolist() == [False, True, False, True]
    data = stream(tmp_path / "b", batch_size=10, slice_len=5, pad=True)
    (batch,) = list(data)
    assert batch["observation", "state"][:5, 0].tolist() == [0, 1, 2, 0, 0]
    with pytest.raises(RuntimeError, match="fewer than a slice of 4"):
        stream(tmp_path / "c", batch_size=4, slice_len=4).sample()


def test_a_stream_that_is_drawn_from_begins_again(tmp_path):
    data = stream(tmp_path, num_slices=2)
    assert data.sample(4).batch_size == data.sample(4).batch_size == torch.Size([4])


def test_shards_of_a_stream_are_fetched_one_by_one(tmp_path, monkeypatch):
    (body,) = served(tmp_path, "openx").values()
    with FileServer({"cmu_stretch/cmu_stretch_00000.tar": body}) as server:
        monkeypatch.setattr(OpenXExperienceReplay, "BASE_URL", server.url("").rstrip("/"))
        monkeypatch.setattr(
            "flambeau.rl.data.datasets.openx.folder_files", lambda *args: ["cmu_stretch/cmu_stretch_00000.tar"]
        )
        data = OpenXExperienceReplay("cmu_stretch", root=tmp_path / "none", streaming=True)
        assert sorted(len(trajectory) for trajectory in data) == sorted(LENGTHS)


class Evil:
    def __reduce__(self):
        return (print, ("run",))


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    config = dataset_fixture("openx", tmp_path)
    shard = tmp_path / "cmu_stretch.sources" / "cmu_stretch_00000.tar"
    with tarfile.open(shard, "w") as archive:
        from flambeau.rl._miniatures import _add

        _add(archive, "a.data.pickle", pickle.dumps({"steps": [Evil()]}))
    with pytest.raises(UnsafePickleError, match=r"builtins\.print"):
        OpenXExperienceReplay(**config)


def test_pickles_of_arrays_and_scalars_are_read():
    content = {"a": np.arange(3), "b": np.float32(2.5), "c": ["x", b"y", None], "d": np.array([[1.0]], order="F")}
    for protocol in (2, 3, 4, 5):
        found = load_pickle(io.BytesIO(pickle.dumps(content, protocol=protocol)), "it")
        assert np.array_equal(found["a"], content["a"])
        assert (found["b"], found["c"]) == (2.5, ["x", b"y", None])


def test_videos_of_lerobot_are_decoded_at_the_frames_of_a_batch(tmp_path):
    data = opened("lerobot", tmp_path)
    batch = data.sample(4)
    frames = batch["observation", "image", "top"]
    assert frames.shape == (4, 3, 16, 32)
    assert (frames[:, 0, 0, 0].float() - 10 * batch["frame"]).abs().max() <= 3
    kept = reopened("lerobot", tmp_path, decode_video=False).sample(2)["observation", "image", "top"]
    assert all(Path(source).is_relative_to(tmp_path / IDS["lerobot"]) for source in kept.sources)


def test_lerobot_knows_tasks_and_gives_next_observations(tmp_path):
    data = opened("lerobot", tmp_path, batch_size=6, slice_len=3, rehydrate=True)
    batch = data.sample().reshape(2, 3)
    state, follows = batch["observation", "state"], batch["next", "observation", "state"]
    assert torch.equal(follows[:, :-1], state[:, 1:])
    assert follows[:, -1].isnan().all()
    assert set(data[:]["language_instruction"]) == {"push", "pull"}


def test_the_third_version_of_lerobot_is_read(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    from flambeau.rl._miniatures import _video

    folder = tmp_path / "a" / "b.sources"
    camera = "observation.images.top"
    for name in ("meta/episodes/chunk-000", "data/chunk-000", f"videos/{camera}/chunk-000"):
        (folder / name).mkdir(parents=True)
    info = {"codebase_version": "v3.0", "fps": 10, "features": {camera: {"dtype": "video"}},
            "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"}  # fmt: skip
    (folder / "meta/info.json").write_text(json.dumps(info))
    parquet.write_table(pa.table({"task_index": [0], "__index_level_0__": ["push"]}), folder / "meta/tasks.parquet")
    described = {"episode_index": [0, 1], f"videos/{camera}/chunk_index": [0, 0], f"videos/{camera}/file_index": [0, 0],
                 f"videos/{camera}/from_timestamp": [0.0, 0.3]}  # fmt: skip
    parquet.write_table(pa.table(described), folder / "meta/episodes/chunk-000/file-000.parquet")
    rows = {
        "action": [[0.0]] * 5,
        "episode_index": [0, 0, 0, 1, 1],
        "frame_index": [0, 1, 2, 0, 1],
        "task_index": [0] * 5,
    }
    parquet.write_table(pa.table(rows), folder / "data/chunk-000/file-000.parquet")
    _video(folder / f"videos/{camera}/chunk-000/file-000.mp4", [0, 20, 40, 60, 80])
    data = LeRobotExperienceReplay("a/b", root=tmp_path, batch_size=2, download=False)
    frames = data[:]["observation", "image", "top"][:, 0, 0, 0].float()
    assert (frames - 20 * torch.arange(5)).abs().max() <= 3
    (folder / "meta/info.json").write_text(json.dumps(info | {"codebase_version": "v1.6"}))
    with pytest.raises(DatasetFormatError, match=r"v1\.6"):
        LeRobotFiles(folder)


def test_columns_get_the_keys_that_models_expect():
    columns = {"observation.images.top": torch.zeros(2, 3, 4, 4), "next.reward": torch.ones(2), "a.b": torch.zeros(2)}
    steps = lerobot_columns_to_tensordict(columns, key_map={"a.b": "c"})
    assert steps["observation", "image", "top"].shape == (2, 3, 4, 4)
    assert steps["next", "reward"].shape == (2, 1)
    assert "c" in set(steps.keys())
    with pytest.raises(ValueError, match="different lengths"):
        lerobot_columns_to_tensordict({"a": torch.zeros(2), "b": torch.zeros(3)})


# What is done with them


def test_trajectories_become_rows_with_a_mask(tmp_path):
    data = opened("minari", tmp_path, split_trajs=True)
    steps = data[:]
    assert steps.batch_size == torch.Size([len(LENGTHS), max(LENGTHS)])
    assert steps["mask"].sum(-1).tolist() == list(LENGTHS)
    assert steps["observation", "mission"][0] == ["go to 0", "go to 1", "go to 2", "", ""]
    assert data.sample(2)["index"].shape == (2, max(LENGTHS))


@pytest.mark.parametrize("workers", [0, 2])
def test_steps_are_preprocessed_in_processes_into_a_folder_of_their_own(workers, tmp_path):
    data = opened("d4rl", tmp_path / "data")
    storage = data.preprocess(halved, num_workers=workers, num_chunks=2 if workers else None, dest=tmp_path / "halved",
                              mp_start_method="fork" if workers else None)  # fmt: skip
    assert torch.equal(storage[:]["half"], data[:]["observation"] / 2)
    assert len(ReplayBuffer(storage=storage, batch_size=3).sample()) == 3
    assert (tmp_path / "halved" / "half.memmap").is_file()


def halved(steps):
    return steps.select("action").set("half", steps["observation"] / 2)


def test_data_sets_of_different_sources_are_drawn_from_together(tmp_path):
    first, second = opened("d4rl", tmp_path / "a"), opened("gen_dgrl", tmp_path / "b")
    both = ReplayBufferEnsemble(first, second, batch_size=4, sample_from_all=True)
    batch = both.sample()
    assert batch.batch_size == torch.Size([2, 2])
    assert batch["index", "buffer_ids"].tolist() == [[0, 0], [1, 1]]


def test_deleting_removes_the_copy(tmp_path):
    data = opened("d4rl", tmp_path)
    data.delete()
    assert not data.data_path.exists()


def test_sources_are_found_by_prefixes():
    register_dataset("mine", lambda name, **arguments: (name, arguments), replace=True)
    assert load_dataset("mine:a:b", x=1) == ("a:b", {"x": 1})
    with pytest.raises(ValueError, match="is taken"):
        register_dataset("mine", print)
    with pytest.raises(ValueError, match="minari"):
        load_dataset("minary:x")
    with pytest.raises(ValueError, match="no name with a prefix"):
        load_dataset("x")
    with pytest.raises(ValueError, match="module:attribute"):
        register_dataset("other", "no colon")
