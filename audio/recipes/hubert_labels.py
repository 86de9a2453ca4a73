"""Cluster labels of speech, the targets of HuBERT: features, k-means, and the files they are kept in.

A list of recordings (`train.tsv`) has the root on its first line, then `path<TAB>samples`; the labels (`train.km`) have
a line of numbers for each recording, one number for each frame of the network, 50 a second. Both are the formats of
fairseq and of upstream's recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio import info, load
from flambeau.audio.compliance.kaldi import mfcc
from flambeau.audio.functional import compute_deltas
from flambeau.core.files import write_atomic
from flambeau.core.progress import progress

RATE = 16_000
Features = Callable[[Tensor], Tensor]
"""(time,) waveform at 16 kHz -> (frames, channels), 50 frames a second."""


class Recordings(NamedTuple):
    """A list of recordings.

    Attributes:
        root: folder that the paths are relative to.
        paths: of the recordings.
        samples: of each.
    """

    root: Path
    paths: list[str]
    samples: list[int]

    @classmethod
    def found(cls, root: Path, paths: Iterable[Path]) -> Recordings:
        """Those in some files, whose headers are read."""
        ordered = sorted(paths)
        if not ordered:
            raise FileNotFoundError(f"{root} has no recordings, expected .flac files below it; look at --root.")
        names, samples = [], []
        with progress("lengths", len(ordered)) as advance:
            for path in ordered:
                names.append(path.relative_to(root).as_posix())
                samples.append(info(str(path)).num_frames)
                advance(1)
        return cls(root, names, samples)

    @classmethod
    def read(cls, path: Path) -> Recordings:
        """A list that `write` wrote.

        Raises:
            ValueError: a line is not of that form.
        """
        root, *lines = path.read_text(encoding="utf-8").splitlines()
        names, samples = [], []
        for number, line in enumerate(lines, 2):
            name, tab, count = line.partition("\t")
            if not tab or not count.isdigit():
                raise ValueError(f"{path}, line {number}: {line!r} is not a path, a tab, and a number of samples.")
            names.append(name)
            samples.append(int(count))
        return cls(Path(root), names, samples)

    def write(self, path: Path) -> None:
        """Keep the list."""
        lines = [str(self.root), *(f"{name}\t{count}" for name, count in zip(self.paths, self.samples, strict=True))]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, "\n".join(lines) + "\n")

    def waveform(self, number: int) -> Tensor:
        """(time,), float32, 16 kHz.

        Raises:
            ValueError: the recording has another rate.
        """
        path = self.root / self.paths[number]
        waveform, rate = load(str(path))
        if rate != RATE:
            raise ValueError(f"{path} has {rate} samples a second, expected {RATE}; resample the recordings.")
        return waveform.mean(0)

    def between(self, least: int, most: int) -> list[int]:
        """Numbers of the recordings whose samples are so many."""
        return [number for number, count in enumerate(self.samples) if least <= count <= most]


def cepstra(waveform: Tensor) -> Tensor:
    """13 cepstra and their first and second slopes, at every second of 100 frames a second: (frames, 39).

    Every second frame of 25 ms begins where a frame of the network does, so that labels need no shift.
    """
    coefficients = mfcc(waveform.unsqueeze(0), sample_frequency=RATE, use_energy=False).T
    slopes = compute_deltas(coefficients)
    return torch.cat([coefficients, slopes, compute_deltas(slopes)]).T[::2]


def prepared(waveform: Tensor, size: str) -> Tensor:
    """A waveform as networks of a size want it: the large ones with zero mean and unit variance."""
    return F.layer_norm(waveform, waveform.shape[-1:]) if size in ("large", "xlarge") else waveform


def layer(model: nn.Module, size: str, number: int, device: torch.device) -> Features:
    """What a layer of a network of some size gives, the first being 1."""

    @torch.inference_mode()
    def features(waveform: Tensor) -> Tensor:
        heard = prepared(waveform.unsqueeze(0), size).to(device)
        found, _ = model.extract_features(heard, num_layers=number)  # type: ignore[operator]
        last: Tensor = found[-1][0]
        return last.float().cpu()

    return features


def gathered(recordings: Recordings, features: Features, share: float, seed: int) -> Tensor:
    """The features of a random share of the recordings, at least one: (frames, channels)."""
    count = max(1, round(share * len(recordings.paths)))
    order = torch.randperm(len(recordings.paths), generator=torch.Generator().manual_seed(seed))
    pieces = []
    with progress("features", count) as advance:
        for number in order[:count].tolist():
            pieces.append(features(recordings.waveform(number)))
            advance(1)
    return torch.cat(pieces)


def k_means(
    points: Tensor, clusters: int, *, seed: int = 0, batch: int = 10_000, tries: int = 20, passes: int = 100
) -> Tensor:
    """Find cluster centres by mini-batches (Sculley 2010, "Web-scale k-means clustering").

    Args:
        points: (points, channels).
        clusters: how many.
        seed: of what is drawn.
        batch: points of a step.
        tries: beginnings by k-means++, of which the best on three batches is taken.
        passes: most passes over the points; it ends sooner where one gains less than a thousandth.

    Returns:
        (clusters, channels).

    Raises:
        ValueError: there are fewer points than clusters.
    """
    if len(points) < clusters:
        raise ValueError(f"{len(points)} points cannot make {clusters} clusters; take more recordings or --clusters.")
    generator = torch.Generator().manual_seed(seed)
    sample = points[torch.randperm(len(points), generator=generator)[: max(3 * batch, clusters)]]
    beginnings = [_spread(sample, clusters, generator) for _ in range(tries)]
    centres = min(beginnings, key=lambda one: float(nearest(sample, one)[1].mean()))
    counts = torch.zeros(clusters)
    before = float("inf")
    with progress("clusters", passes) as advance:
        for _ in range(passes):
            total = 0.0
            for part in torch.randperm(len(points), generator=generator).split(batch):
                taken = points[part]
                labels, distances = nearest(taken, centres)
                total += float(distances.sum())
                counts.index_add_(0, labels, torch.ones(len(taken)))
                sums = torch.zeros_like(centres).index_add_(0, labels, taken)
                here = torch.bincount(labels, minlength=clusters)[:, None]
                # Each centre is the mean of all that it was ever given.
                centres = centres + (sums - here * centres) / counts.clamp(min=1)[:, None]
            advance(1)
            if before - total <= 1e-3 * abs(total):
                break
            before = total
    return centres


def nearest(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centre of each point, (points,), and the square of its distance."""
    squares = points.square().sum(1)[:, None] - 2 * points @ centres.T + centres.square().sum(1)
    distances, labels = squares.min(1)
    return labels, distances.clamp(min=0)


def _spread(points: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """Centres among the points that are far from one another (k-means++, Arthur and Vassilvitskii 2007)."""
    chosen = [int(torch.randint(len(points), (), generator=generator))]
    distances = (points - points[chosen[0]]).square().sum(1)
    while len(chosen) < clusters:
        # Equal points everywhere leave nothing to choose by distance.
        odds = distances if float(distances.sum()) > 0 else torch.ones_like(distances)
        chosen.append(_drawn(odds, generator))
        distances = torch.minimum(distances, (points - points[chosen[-1]]).square().sum(1))
    return points[chosen]


def _drawn(odds: Tensor, generator: torch.Generator) -> int:
    """An index in proportion to the odds; unlike `multinomial`, of any number of them."""
    sums = odds.double().cumsum(0)
    place = torch.rand((), generator=generator, dtype=torch.float64) * sums[-1]
    return min(int(torch.searchsorted(sums, place)), len(odds) - 1)


def write_labels(path: Path, recordings: Recordings, features: Features, centres: Tensor) -> None:
    """Label all recordings."""
    lines = []
    with progress("labels", len(recordings.paths)) as advance:
        for number in range(len(recordings.paths)):
            labels, _ = nearest(features(recordings.waveform(number)), centres)
            lines.append(" ".join(map(str, labels.tolist())))
            advance(1)
    write_atomic(path, "\n".join(lines) + "\n")


def read_labels(path: Path, recordings: Recordings) -> list[Tensor]:
    """The labels of each recording, (frames,).

    Raises:
        ValueError: they are of another list, or of other frames.
    """
    found = [
        torch.tensor(list(map(int, line.split())), dtype=torch.int16)
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    if len(found) != len(recordings.paths):
        raise ValueError(
            f"{path} has {len(found)} lines, but there are {len(recordings.paths)} recordings; label anew."
        )
    for number, labels in enumerate(found):
        if len(labels) != frames_of(recordings.samples[number]):
            raise ValueError(
                f"{path}, line {number + 1}: {len(labels)} labels, but {recordings.paths[number]} has "
                f"{frames_of(recordings.samples[number])} frames; label anew."
            )
    return found


def frames_of(samples: int) -> int:
    """Frames that the network makes of so many samples."""
    return max(0, (samples - 400) // 320 + 1)
