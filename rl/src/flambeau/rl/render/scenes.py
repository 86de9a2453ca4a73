"""Pictures of the control problems that are written in tensor code, drawn by Pillow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["SCENES", "draw"]

_WIDTH, _HEIGHT = 480, 320
_SCALE = 2
"""Drawn at twice the size, and reduced: lines become smooth."""
_INK, _PAPER, _STRONG, _ACCENT = (40, 44, 52), (250, 250, 247), (66, 110, 180), (200, 90, 40)

State = Sequence[float]


class _Canvas:
    """A picture with the origin in its middle, x to the right and y upwards, in pixels of the result."""

    def __init__(self) -> None:
        try:
            from PIL import Image, ImageDraw
        except ImportError as error:
            raise ImportError("pictures need Pillow. Run: pip install 'flambeau-rl[video]'") from error
        self.image = Image.new("RGB", (_WIDTH * _SCALE, _HEIGHT * _SCALE), _PAPER)
        self.pen: Any = ImageDraw.Draw(self.image)

    def at(self, x: float, y: float) -> tuple[float, float]:
        return ((_WIDTH / 2 + x) * _SCALE, (_HEIGHT / 2 - y) * _SCALE)

    def line(self, points: Sequence[tuple[float, float]], color: Any, width: float) -> None:
        self.pen.line([self.at(*point) for point in points], fill=color, width=round(width * _SCALE), joint="curve")
        for point in (points[0], points[-1]):
            self.disc(*point, width / 2, color)

    def disc(self, x: float, y: float, radius: float, color: Any) -> None:
        left, top = self.at(x - radius, y + radius)
        right, bottom = self.at(x + radius, y - radius)
        self.pen.ellipse((left, top, right, bottom), fill=color)

    def box(self, x: float, y: float, width: float, height: float, color: Any) -> None:
        left, top = self.at(x - width / 2, y + height / 2)
        right, bottom = self.at(x + width / 2, y - height / 2)
        self.pen.rectangle((left, top, right, bottom), fill=color)

    def array(self) -> Any:
        from PIL import Image

        return np.asarray(self.image.resize((_WIDTH, _HEIGHT), Image.Resampling.LANCZOS))


def _cart_pole(canvas: _Canvas, state: State) -> None:
    x, _, angle, _ = state
    unit = _WIDTH / 5.2
    ground, cart = -70.0, x * unit
    canvas.line([(-_WIDTH / 2, ground), (_WIDTH / 2, ground)], _INK, 1)
    canvas.box(cart, ground, 60, 34, _INK)
    canvas.line([(cart, ground), (cart + 150 * math.sin(angle), ground + 150 * math.cos(angle))], _ACCENT, 10)
    canvas.disc(cart, ground, 5, _STRONG)


def _pendulum(canvas: _Canvas, state: State) -> None:
    cosine, sine, velocity = state
    # gymnasium draws positive angles to the left.
    canvas.line([(0, 0), (-115 * sine, 115 * cosine)], _ACCENT, 22)
    canvas.disc(0, 0, 6, _INK)
    reach = 14 * velocity
    canvas.line([(0, -140), (-reach, -140)], _STRONG, 4)


def _valley(position: float) -> tuple[float, float]:
    return (position + 0.3) * _WIDTH / 1.9, math.sin(3 * position) * 90 - 20


def _mountain_car(canvas: _Canvas, state: State) -> None:
    points = [_valley(-1.2 + 1.8 * step / 90) for step in range(91)]
    canvas.line(points, _INK, 2)
    x, y = _valley(0.5)
    canvas.line([(x, y), (x, y + 40)], _STRONG, 3)
    x, y = _valley(state[0])
    canvas.disc(x, y + 11, 11, _ACCENT)


def _acrobot(canvas: _Canvas, state: State) -> None:
    first, second = math.atan2(state[1], state[0]), math.atan2(state[3], state[2])
    unit = 70.0
    middle = (unit * math.sin(first), -unit * math.cos(first))
    end = (middle[0] + unit * math.sin(first + second), middle[1] - unit * math.cos(first + second))
    canvas.line([(-_WIDTH / 2, unit), (_WIDTH / 2, unit)], _INK, 1)
    canvas.line([(0, 0), middle], _STRONG, 12)
    canvas.line([middle, end], _ACCENT, 12)
    canvas.disc(0, 0, 5, _INK)
    canvas.disc(*middle, 5, _INK)


SCENES: dict[str, Callable[[_Canvas, State], None]] = {
    "Acrobot-v1": _acrobot,
    "CartPole-v1": _cart_pole,
    "MountainCar-v0": _mountain_car,
    "MountainCarContinuous-v0": _mountain_car,
    "Pendulum-v1": _pendulum,
}


def draw(env_id: str, observation: State) -> Any:
    """A picture of what an observation says.

    Args:
        env_id: one of `SCENES`.
        observation: its numbers.

    Returns:
        (320, 480, 3), uint8.

    Raises:
        ImportError: Pillow is not installed.
    """
    canvas = _Canvas()
    SCENES[env_id](canvas, observation)
    return canvas.array()
