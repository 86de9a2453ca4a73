"""A plan as a picture: how full and how busy each device is."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from flambeau.rec.distributed.planner._loads import DeviceLoads
from flambeau.rec.distributed.planner.types import ParameterConstraints, ShardingOption, Topology
from flambeau.rec.distributed.planner.utils import bytes_to_gb

__all__ = ["draw_plan"]

_WIDTH, _HEIGHT, _LEFT, _GAP = 960, 150, 70, 60
_STAGES = (
    ("fwd_compute", "forward", "#3b6fb6"),
    ("fwd_comms", "forward communication", "#9dbde3"),
    ("bwd_compute", "backward", "#c2572b"),
    ("bwd_comms", "backward communication", "#eab58f"),
    ("prefetch_compute", "filling caches", "#8a8a8a"),
)


def draw_plan(
    plan: Sequence[ShardingOption],
    topology: Topology,
    constraints: dict[str, ParameterConstraints] | None = None,
) -> str:
    """Draw the memory and the time of each device as bars, of an SVG picture.

    Args:
        plan: one option for each table, on devices.
        topology: the devices.
        constraints: what users know, by table.

    Returns:
        The picture's text, to be written to a file that ends in ".svg".
    """
    loads = DeviceLoads(plan, topology, constraints)
    rows: list[tuple[str, str, list[tuple[str, str, npt.NDArray[np.float64]]], float]] = []
    capacities = [device.storage for device in topology.devices]
    for name, used, room in (
        ("HBM", loads.hbm, max((storage.hbm for storage in capacities), default=0)),
        ("DDR", loads.ddr, max((storage.ddr for storage in capacities), default=0)),
    ):
        if used.any():
            sizes = np.array([bytes_to_gb(int(size)) for size in used])
            rows.append((f"{name} of each device", "GiB", [("used", "#3b6fb6", sizes)], bytes_to_gb(room)))
    bars = [(label, color, loads.stages[stage]) for stage, label, color in _STAGES if loads.stages[stage].any()]
    rows.append(("Time of a step", "ms", bars, float(loads.total.max())))
    height = len(rows) * (_HEIGHT + _GAP) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 20} {height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (title, unit, series, most) in enumerate(rows):
        parts += _row(title, unit, series, most, 30 + number * (_HEIGHT + _GAP))
    return "\n".join([*parts, "</svg>", ""])


def _row(
    title: str, unit: str, series: Sequence[tuple[str, str, npt.NDArray[np.float64]]], most: float, top: int
) -> list[str]:
    """One row of bars, stacked, with a line at the most that there may be."""
    count = len(series[0][2]) if series else 0
    scale = _HEIGHT / (most or 1.0)
    width = _WIDTH / max(count, 1)
    legend = "  ".join(
        f'<tspan fill="{color}">■</tspan> {escape(label)}' for label, color, _ in series if len(series) > 1
    )
    parts = [
        f'<text x="{_LEFT}" y="{top - 8}"><tspan font-weight="bold">{escape(title)}</tspan>  {legend}</text>',
        f'<text x="{_LEFT - 6}" y="{top + 10}" text-anchor="end">{most:.4g} {unit}</text>',
        f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{top}" y2="{top}" stroke="#999" stroke-dasharray="4 3"/>',
        f'<text x="{_LEFT}" y="{top + _HEIGHT + 16}">rank 0</text>',
        f'<text x="{_LEFT + _WIDTH}" y="{top + _HEIGHT + 16}" text-anchor="end">{count - 1}</text>',
    ]
    base = np.full(count, float(top + _HEIGHT))
    for _, color, values in series:
        heights = values * scale
        base = base - heights
        parts += [
            f'<rect x="{_LEFT + rank * width:.2f}" y="{base[rank]:.2f}" width="{max(width * 0.9, 0.5):.2f}" '
            f'height="{heights[rank]:.2f}" fill="{color}"/>'
            for rank in range(count)
            if heights[rank] > 0
        ]
    return parts
