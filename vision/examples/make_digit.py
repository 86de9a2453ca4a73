"""Make `digit.png`: a handwritten digit as a scan of it might look, from the held-out part of the UCI digits."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "recipes"))
import digits

SAMPLE = 27  # of the held-out part: a seven
SIDE, PAPER, INK = 280, (240, 234, 218), (44, 52, 96)


def main() -> None:
    """Enlarge the sample to a blue digit on cream paper, off the centre, with the grain of a scan."""
    pictures, labels = digits.samples(held_out=True)
    sample = np.pad(pictures[SAMPLE, 0].numpy(), 1)  # ink reaches the sample's edge: leave room for its own edge
    digit = Image.fromarray(sample).resize((200, 200), Image.Resampling.BICUBIC)
    strength = np.zeros((SIDE, SIDE, 1))
    strength[30:230, 50:250, 0] = np.asarray(digit) / 255
    strength = 1 / (1 + np.exp(-12 * (strength - 0.4)))  # a pen has edges
    colours = np.array(PAPER) * (1 - strength) + np.array(INK) * strength
    grain = np.random.default_rng(0).normal(0, 2, (SIDE, SIDE, 1))
    path = Path(__file__).with_name("digit.png")
    image = Image.fromarray((colours + grain).clip(0, 255).astype(np.uint8))
    image.quantize(48).save(path, optimize=True)  # fewer colours make a smaller file
    print(f"{path}: a {labels[SAMPLE].item()}")


if __name__ == "__main__":
    main()
