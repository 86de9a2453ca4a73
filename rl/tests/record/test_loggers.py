"""Loggers: what they keep and where, what they count, and loggers in processes of their own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.record import CSVLogger, Every, LoggerMonitor, ProcessLogger, TensorboardLogger
from flambeau.rl.record.loggers import Logger, generate_exp_name, get_logger

CLIP = torch.arange(6, dtype=torch.uint8).mul(40).reshape(1, 6, 1, 1, 1).expand(1, 6, 3, 16, 16)


def lines(logger: CSVLogger, name: str) -> list[str]:
    return Path(logger.experiment.log_dir, "scalars", f"{name}.csv").read_text().splitlines()


def test_csv_has_a_line_for_each_number(tmp_path):
    logger = CSVLogger("run", str(tmp_path))
    logger.log_scalar("train/reward", torch.tensor(1.5), step=10)
    logger.log_scalar("train/reward", 2.5)
    assert lines(logger, "train/reward") == ["10,1.5", "1,2.5"]


def test_csv_goes_on_where_it_was(tmp_path):
    CSVLogger("run", str(tmp_path)).log_scalar("loss", 1.0, step=1)
    again = CSVLogger("run", str(tmp_path))
    again.log_scalar("loss", 2.0, step=2)
    assert lines(again, "loss") == ["1,1.0", "2,2.0"]


def test_metrics_of_a_tensordict_are_named_by_their_keys(tmp_path):
    logger = CSVLogger("run", str(tmp_path))
    given = TensorDict({"loss": {"actor": torch.tensor(1.0)}, "steps": torch.tensor(3)})
    assert logger.log_metrics(given, step=4) == {"loss/actor": 1.0, "steps": 3}
    assert lines(logger, "loss/actor") == ["4,1.0"]


def test_csv_writes_parameters_a_line_each(tmp_path):
    logger = CSVLogger("run", str(tmp_path))
    logger.log_hparams({"lr": 0.1, "gamma": 0.9})
    assert (tmp_path / "run" / "texts" / "hparams0.txt").read_text() == "gamma: 0.9\nlr: 0.1"


@pytest.mark.parametrize(("kind", "name"), [("pt", "clip_3.pt"), ("memmap", "clip_3.memmap")])
def test_csv_keeps_videos_as_tensors(tmp_path, kind, name):
    logger = CSVLogger("run", str(tmp_path), video_format=kind)
    logger.log_video("clip", CLIP, step=3)
    path = tmp_path / "run" / "videos" / name
    kept = torch.load(path) if kind == "pt" else torch.from_file(str(path), size=CLIP.numel(), dtype=torch.uint8)
    torch.testing.assert_close(kept.reshape(CLIP.shape), CLIP)


def test_csv_writes_mp4_that_shows_the_frames(tmp_path):
    av = pytest.importorskip("av")
    logger = CSVLogger("run", str(tmp_path), video_format="mp4", video_fps=10)
    logger.log_video("clip", CLIP)
    with av.open(str(tmp_path / "run" / "videos" / "clip_0.mp4")) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        rate = container.streams.video[0].average_rate
    assert rate == 10
    assert [abs(float(frame.mean()) - 40 * i) < 6 for i, frame in enumerate(frames)] == [True] * 6


@pytest.mark.parametrize("shape", [(6, 3, 8, 8), (1, 6, 2, 8, 8)])
def test_what_is_no_video_is_refused(tmp_path, shape):
    with pytest.raises(ValueError, match=r"a video is \(N, T, C, H, W\)"):
        CSVLogger("run", str(tmp_path)).log_video("clip", torch.zeros(shape, dtype=torch.uint8))


def test_unknown_formats_of_videos_are_refused(tmp_path):
    with pytest.raises(ValueError, match="video_format must be one of pt, memmap, mp4; got 'avi'"):
        CSVLogger("run", str(tmp_path), video_format="avi")


def test_counts_go_on_from_a_state(tmp_path):
    logger = CSVLogger("run", str(tmp_path))
    logger.log_scalar("loss", 1.0)
    logger.log_video("clip", CLIP)
    again = get_logger("csv", "elsewhere", "other", state_dict=logger.state_dict())
    again.log_scalar("loss", 2.0)
    again.log_video("clip", CLIP)
    assert lines(again, "loss") == ["0,1.0", "1,2.0"]
    assert sorted(path.name for path in (tmp_path / "run" / "videos").iterdir()) == ["clip_0.pt", "clip_1.pt"]


def test_a_logger_that_was_shut_down_is_not_alive(tmp_path):
    logger = CSVLogger("run", str(tmp_path))
    logger.log_scalar("loss", 1.0)
    logger.shutdown()
    logger.shutdown()
    assert not logger.is_alive


def test_tensorboard_keeps_numbers_videos_and_histograms(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = TensorboardLogger("run", str(tmp_path))
    logger.log_scalar("loss", 1.0)
    logger.log_scalar("loss", 2.0)
    logger.log_video("clip", CLIP, step=5)
    logger.log_histogram("weights", torch.randn(100), step=5)
    logger.log_hparams({"lr": 0.1, "layers": [64, 64]})
    logger.shutdown()
    events = EventAccumulator(str(tmp_path / "run"), size_guidance={"images": 0}).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(0, 1.0), (1, 2.0)]
    assert (events.Images("clip")[0].step, events.Images("clip")[0].height) == (5, 16)
    assert len(events.Histograms("weights")) == 1


@pytest.mark.parametrize("kind", ["", None])
def test_no_kind_is_no_logger(kind):
    assert get_logger(kind, "folder", "run") is None


def test_unknown_kinds_are_named():
    with pytest.raises(NotImplementedError, match="one of tensorboard, csv, wandb, mlflow, trackio; got 'foo'"):
        get_logger("foo", "folder", "run")


def test_names_of_experiments_differ():
    assert generate_exp_name("ppo", "x") != generate_exp_name("ppo", "x")
    assert generate_exp_name("ppo", "x").startswith("ppo_x_")


def test_a_logger_in_a_process_of_its_own_logs_the_same(tmp_path):
    logger = CSVLogger("run", str(tmp_path), service_backend="process", service_backend_options={"context": "fork"})
    assert isinstance(logger, ProcessLogger)
    assert (logger.exp_name, logger.service_backend) == ("run", "process")
    logger.log_scalar("loss", 1.0, step=1)
    assert logger.client().log_metrics({"loss": torch.tensor(2.0)}, step=2) == {"loss": 2.0}
    logger.flush()
    assert (tmp_path / "run" / "scalars" / "loss.csv").read_text() == "1,1.0\n2,2.0\n"
    logger.shutdown()
    assert not logger.is_alive


def test_what_a_process_cannot_log_is_raised_by_flush(tmp_path):
    with ProcessLogger(CSVLogger, "run", str(tmp_path), mp_context="fork") as logger:
        logger.log_video("clip", torch.zeros(2, 3))
        with pytest.raises(RuntimeError, match=r"log_video.*a video is"):
            logger.flush()
        logger.flush()
        with pytest.raises(RuntimeError, match="keeps no histograms"):
            logger.log_histogram("x", [1.0])


def test_a_logger_that_cannot_be_made_says_why(tmp_path):
    with pytest.raises(RuntimeError, match="video_format must be one of"):
        ProcessLogger(CSVLogger, "run", str(tmp_path), video_format="avi", mp_context="fork")


def test_a_killed_logger_is_noticed(tmp_path):
    logger = ProcessLogger(CSVLogger, "run", str(tmp_path), mp_context="fork")
    os.kill(logger._process.pid, signal.SIGKILL)
    logger._process.join()
    with pytest.raises(RuntimeError, match="ended with exit code -9"):
        logger.log_scalar("loss", 1.0)
    logger.shutdown()


def test_clients_log_and_do_not_end_the_logger(tmp_path):
    logger = ProcessLogger(CSVLogger, "run", str(tmp_path), mp_context="fork")
    with logger, pytest.raises(AttributeError, match="its logger's owner does the rest"):
        logger.client().shutdown()


def test_backends_have_names(tmp_path):
    with pytest.raises(ValueError, match="service_backend must be one of direct, process, ray; got 'thread'"):
        CSVLogger("run", str(tmp_path), service_backend="thread")


class Told(Logger):
    """Keeps what it is told in a list."""

    def _create_experiment(self):
        return None

    def log_scalar(self, name, value, step=None):
        self.told = [*getattr(self, "told", []), (name, value, step)]

    log_video = log_hparams = log_histogram = None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hours", 1), "kind must be"),
        (("seconds", 0), "interval must be above 0"),
        (("counter", 3), "A counter needs its name"),
    ],
)
def test_schedules_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Every(*arguments)


def test_a_monitor_logs_when_a_counter_passes_a_multiple():
    counts = iter([5, 25, 28, 61, 3, 31])
    logger = Told("run", "")
    monitor = LoggerMonitor(logger, background=False)
    monitor.watch(
        None,
        name="c",
        schedule=Every.counter("frames", 30),
        stats_fn=lambda: {"frames": next(counts)},
        log_on_start=False,
    )
    logged = [bool(monitor.step()) for _ in range(6)]
    assert logged == [False, False, False, True, False, True]
    assert [step for name, _, step in logger.told if name == "c/frames"] == [61, 31]


def test_a_monitor_tells_rates_of_counters():
    counts = iter([10, 20])
    monitor = LoggerMonitor(Told("run", ""), background=False)
    monitor.watch(None, name="c", stats_fn=lambda: {"frames": next(counts), "size": 1})
    assert set(monitor.step()["c"]) == {"c/frames", "c/size"}
    assert set(monitor.step()["c"]) == {"c/frames", "c/size", "c/frames_per_second"}


def test_a_monitor_in_the_background_logs_a_last_time_when_it_stops():
    logger = Told("run", "")
    with LoggerMonitor(logger, poll_interval=60) as monitor:
        monitor.watch(None, name="c", stats_fn=lambda: {"size": 1}, schedule=Every.seconds(60), log_on_start=False)
    monitor.stop()
    assert logger.told == [("c/size", 1.0, None)]


def test_a_monitor_goes_on_where_one_look_fails():
    def fails():
        raise OSError("gone")

    monitor = LoggerMonitor(Told("run", ""), background=False, on_error="ignore")
    monitor.watch(None, name="bad", stats_fn=fails)
    monitor.watch(None, name="good", stats_fn=lambda: {"size": 1})
    assert list(monitor.step()) == ["good"]
    monitor.on_error = "raise"
    with pytest.raises(OSError, match="gone"):
        monitor.step()


def test_watched_names_are_unique():
    monitor = LoggerMonitor(Told("run", ""), background=False)
    names = [monitor.watch(object(), stats_fn=dict) for _ in range(2)]
    assert names == ["object", "object_1"]
    with pytest.raises(ValueError, match="is watched already"):
        monitor.watch(object(), stats_fn=dict, name="object")
    with pytest.raises(KeyError, match="nothing is watched as 'x'"):
        monitor.unwatch("x")
