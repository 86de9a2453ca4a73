"""`CheckpointRotation`: the newest checkpoints of an experiment, and the best one."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flambeau.core.files import safe_name
from flambeau.rl.checkpoint._checkpoint import Checkpoint, CheckpointStrictness
from flambeau.rl.checkpoint._results import CheckpointError, CheckpointLoadResult, CheckpointOptions

__all__ = ["CheckpointBest", "CheckpointMetricMode", "CheckpointRotation"]

CheckpointMetricMode = Literal["min", "max"]
CheckpointBest = tuple[str, CheckpointMetricMode]


@dataclass(frozen=True)
class _Kept:
    step: int
    path: Path
    manifest: dict[str, Any]


class CheckpointRotation:
    """Keeps the newest checkpoints in a folder, PREFIX-STEP each, and removes the others.

    Args:
        directory: the folder.
        keep_last: how many of the newest are kept, >= 1.
        keep_best: an entry of the metadata, and "min" or "max": the checkpoint is kept as well where that is best.
        prefix: of their names.

    Raises:
        ValueError: an argument is not possible.

    Example:
        >>> import tempfile
        >>> rotation = CheckpointRotation(tempfile.mkdtemp(), keep_last=1, keep_best=("reward", "max"))
        >>> for step, reward in enumerate([1.0, 5.0, 2.0, 3.0]):
        ...     path = rotation.save(Checkpoint(step=step), step=step, metadata={"reward": reward})
        >>> [path.name for path in rotation.checkpoints()]
        ['checkpoint-000000000001', 'checkpoint-000000000003']
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        keep_last: int,
        keep_best: CheckpointBest | None = None,
        prefix: str = "checkpoint",
    ) -> None:
        if not _is_count(keep_last) or keep_last < 1:
            raise ValueError(f"keep_last must be 1 or more; got {keep_last!r}.")
        if keep_best is not None and tuple(keep_best)[1:] not in (("min",), ("max",)):
            raise ValueError(f"keep_best is an entry of the metadata and 'min' or 'max'; got {keep_best!r}.")
        self.directory = Path(directory).expanduser()
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.prefix = safe_name(prefix)

    def save(
        self,
        checkpoint: Checkpoint,
        *,
        step: int,
        metadata: Mapping[str, Any] | None = None,
        components: Collection[str] | None = None,
        component_options: Mapping[str, CheckpointOptions] | None = None,
    ) -> Path:
        """Write a checkpoint, and remove what is not kept.

        Args:
            checkpoint: what is written.
            step: how far the experiment has come, >= 0; a checkpoint of the same step is replaced.
            metadata: kept with it; has the entry of `keep_best`.
            components: as for `Checkpoint.save`.
            component_options: as for `Checkpoint.save`.

        Returns:
            Its path.

        Raises:
            ValueError: the step is below 0, or the entry of `keep_best` is no number.
            KeyError: there is no such entry.
        """
        if not _is_count(step) or step < 0:
            raise ValueError(f"step must be a number of 0 or more; got {step!r}.")
        described = dict(metadata or {})
        if self.keep_best is not None:
            if self.keep_best[0] not in described:
                raise KeyError(
                    f"keep_best goes by {self.keep_best[0]!r}, which metadata has not; it has {list(described)}."
                )
            described[self.keep_best[0]] = _number(described[self.keep_best[0]])
        suffix = ".torchrl" if checkpoint.format == "archive" else ""
        path = checkpoint.save(
            self.directory / f"{self.prefix}-{step:012d}{suffix}",
            components=components,
            component_options=component_options,
            metadata=described,
        )
        self.prune()
        return path

    def _kept(self) -> list[_Kept]:
        """Whole checkpoints by step; what is damaged or of others is passed over."""
        found: dict[int, _Kept] = {}
        if not self.directory.is_dir():
            return []
        for path in sorted(self.directory.iterdir()):
            match = re.fullmatch(rf"{re.escape(self.prefix)}-(\d{{12,}})(\.torchrl)?", path.name)
            if match is None:
                continue
            try:
                manifest = Checkpoint.manifest(path)
            except (OSError, CheckpointError):
                continue
            kept = _Kept(int(match[1]), path, manifest)
            other = found.get(kept.step)
            if other is None or kept.manifest.get("created_at", "") >= other.manifest.get("created_at", ""):
                found[kept.step] = kept
        return [found[step] for step in sorted(found)]

    def checkpoints(self) -> tuple[Path, ...]:
        """Their paths, by step."""
        return tuple(kept.path for kept in self._kept())

    def latest(self) -> Path | None:
        """The path of the newest; None where there is none."""
        kept = self._kept()
        return kept[-1].path if kept else None

    def best(self) -> Path | None:
        """The path of the best, the newest of those that are as good; None where there is none."""
        found = self._best(self._kept())
        return None if found is None else found.path

    def _best(self, kept: list[_Kept]) -> _Kept | None:
        if self.keep_best is None:
            return None
        name, mode = self.keep_best
        sign = 1 if mode == "max" else -1
        rated = [
            (sign * float(each.manifest["metadata"][name]), each.step, each) for each in kept if self._is_rated(each)
        ]
        return max(rated, key=lambda item: item[:2])[2] if rated else None

    def _is_rated(self, kept: _Kept) -> bool:
        assert self.keep_best is not None  # the caller's part
        value = kept.manifest.get("metadata", {}).get(self.keep_best[0])
        return isinstance(value, (int, float)) and math.isfinite(value)

    def prune(self) -> tuple[Path, ...]:
        """Remove what is not kept, and return the paths."""
        kept = self._kept()
        staying = {each.path for each in kept[-self.keep_last :]}
        if (best := self._best(kept)) is not None:
            staying.add(best.path)
        leaving = tuple(each.path for each in kept if each.path not in staying)
        for path in leaving:
            _remove(path)
        return leaving

    def load_latest(
        self,
        checkpoint: Checkpoint,
        *,
        components: Collection[str] | None = None,
        component_options: Mapping[str, CheckpointOptions] | None = None,
        map_location: Any = None,
        tensor_load_kwargs: Mapping[str, Any] | None = None,
        strict: CheckpointStrictness | None = None,
    ) -> CheckpointLoadResult:
        """Restore the newest, see `Checkpoint.load`.

        Raises:
            FileNotFoundError: there is none.
        """
        path = self.latest()
        if path is None:
            raise FileNotFoundError(f"there are no checkpoints in {self.directory}; check the folder and the prefix.")
        return checkpoint.load(
            path,
            components=components,
            component_options=component_options,
            map_location=map_location,
            tensor_load_kwargs=tensor_load_kwargs,
            strict=strict,
        )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"keep_best goes by a number; got {value!r}.") from error
    if not math.isfinite(number):
        raise ValueError(f"keep_best goes by a finite number; got {number}.")
    return number


def _remove(path: Path) -> None:
    """Take a checkpoint away: first its name, so that nobody reads what is half gone."""
    gone = path.with_name(f".{path.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    path.rename(gone)
    if gone.is_dir():
        shutil.rmtree(gone)
    else:
        gone.unlink()
