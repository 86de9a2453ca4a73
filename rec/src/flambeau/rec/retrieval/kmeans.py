"""Centroids of many points (Lloyd 1982), for several sets of points at once."""

from __future__ import annotations

import torch
from torch import Tensor

from flambeau.rec.errors import OptionError

__all__ = ["kmeans", "nearest_centroids"]

_AT_ONCE = 1 << 24  # distances held at a time: 64 MiB
_SPREAD = 1024  # centroids up to which the first ones are spread: the effort grows with the square of their number
_DRAWN = 8  # points from which each of the first centroids is drawn, in parts of the number of centroids
_SPLIT = 1 / 1024  # how far apart the halves of a split cluster begin, in parts of its centroid


def kmeans(
    points: Tensor,
    count: int,
    *,
    iterations: int = 25,
    most_points: int = 256,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Centroids that points lie near to.

    It begins with points drawn at random, far from each other where there are at most 1,024 centroids (Arthur and
    Vassilvitskii 2007, k-means++). Each iteration moves every centroid to the mean of the points that are nearest to
    it; a centroid that has none takes half of the largest cluster.

    Args:
        points: (sets, n, d) floating point, or (n, d) for one set.
        count: centroids of each set.
        iterations: at most; it ends before where nothing moves.
        most_points: for each centroid so many points are looked at, drawn at random; more do not make it better
            (Johnson et al. 2017, arXiv:1702.08734).
        generator: of random numbers, on the points' device; None for a fixed seed.

    Returns:
        (sets, count, d), or (count, d), of the points' dtype.

    Raises:
        OptionError: fewer points than centroids.
    """
    if points.dim() == 2:
        made = kmeans(points.unsqueeze(0), count, iterations=iterations, most_points=most_points, generator=generator)
        return made.squeeze(0)
    sets, total, dim = points.shape
    if not 1 <= count <= total:
        raise OptionError(f"there are {total} points for {count} centroids; give at least one for each.")
    draw = generator or torch.Generator(points.device).manual_seed(0)
    order = torch.randperm(total, generator=draw, device=points.device)[: count * most_points]
    chosen = points[:, order]
    centroids = _first(chosen[:, : _DRAWN * count], count, draw) if count <= _SPREAD else chosen[:, :count].clone()
    first = torch.arange(sets, device=points.device).unsqueeze(1) * count
    before = None
    for _ in range(iterations):
        nearest = nearest_centroids(chosen, centroids)
        if before is not None and torch.equal(nearest, before):
            break
        before = nearest
        place = (nearest + first).view(-1)
        sizes = torch.bincount(place, minlength=sets * count)
        sums = torch.zeros(sets * count, dim, dtype=points.dtype, device=points.device)
        sums.index_add_(0, place, chosen.reshape(-1, dim))
        centroids = (sums / sizes.clamp(min=1).unsqueeze(1)).view(sets, count, dim)
        _refill(centroids, sizes.view(sets, count))
    return centroids


def _first(points: Tensor, count: int, draw: torch.Generator) -> Tensor:
    """Points, each drawn by its squared distance to the nearest one before: (sets, count, d)."""
    sets = torch.arange(len(points), device=points.device)
    found = [points[:, 0]]
    distances = torch.full(points.shape[:2], torch.inf, dtype=points.dtype, device=points.device)
    for _ in range(1, count):
        distances = torch.minimum(distances, (points - found[-1].unsqueeze(1)).square().sum(2))
        # Where all points are taken, or alike, any will do.
        place = torch.multinomial(distances + distances.amax(1, keepdim=True) * 1e-6 + 1e-30, 1, generator=draw)
        found.append(points[sets, place.squeeze(1)])
    return torch.stack(found, 1)


def nearest_centroids(points: Tensor, centroids: Tensor) -> Tensor:
    """The number of the nearest centroid of each point.

    Args:
        points: (sets, n, d).
        centroids: (sets, count, d).

    Returns:
        (sets, n) int64; of equally near ones the first.
    """
    sets, count, _ = centroids.shape
    # |x - c|^2 less |x|^2 as one product of matrices: (x, 1) with (-2 c, |c|^2).
    table = torch.cat([-2 * centroids, centroids.square().sum(2, keepdim=True)], 2).transpose(1, 2)
    rows = torch.nn.functional.pad(points, (0, 1), value=1.0)
    step = max(1, _AT_ONCE // (sets * count))
    # `min` has found the place sooner than `argmin` does.
    return torch.cat([torch.bmm(part, table).min(2).indices for part in rows.split(step, 1)], 1)


def _refill(centroids: Tensor, sizes: Tensor) -> None:
    """Give each centroid without points half of the cluster that is the largest then."""
    for one, held in zip(centroids, sizes, strict=True):
        for empty in (held == 0).nonzero().flatten().tolist():
            largest = int(held.argmax())
            one[empty] = one[largest] * (1 + _SPLIT)
            one[largest] *= 1 - _SPLIT
            held[empty] = held[largest] // 2
            held[largest] -= held[empty].item()
