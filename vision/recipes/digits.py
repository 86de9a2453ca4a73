"""Train `digit_cnn` on the UCI handwritten digits: `python vision/recipes/digits.py --out FOLDER`.

Data: Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository,
https://doi.org/10.24432/C50P49, licence CC BY 4.0; the 1,797 samples that scikit-learn carries (`load_digits`).

Split: every writer filled in a sheet with the same sequence of digits, and the samples come sheet after sheet; the
sequence starts anew at sample 1287. The ten sheets before are for training, the four from there on (510 samples) are
held out, so no held-out sheet has been seen in training.

The run is deterministic: one thread, fixed seeds. It takes about a minute on one CPU core, writes
`digit_cnn-uci_v1-<hash>.safetensors`, and prints what belongs into the weights' record.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import torch
from safetensors.torch import save
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.vision.models.digits import DigitCNN
from flambeau.vision.transforms._presets import HandwrittenDigit

FIRST_HELD_OUT = 1287
_SIDE = 48  # of the pictures that training samples are drawn as


def samples(*, held_out: bool) -> tuple[Tensor, Tensor]:
    """Pictures [n, 1, 8, 8] as uint8, light ink on black, and their labels [n]."""
    digits = load_digits()
    part = slice(FIRST_HELD_OUT, None) if held_out else slice(0, FIRST_HELD_OUT)
    pictures = torch.from_numpy(digits.images[part]) * (255 / 16)
    return pictures.round().to(torch.uint8).unsqueeze(1), torch.from_numpy(digits.target[part]).long()


def drawn(pictures: Tensor, generator: torch.Generator) -> Tensor:
    """The samples as someone else might have drawn them: turned, slanted, stretched, with another pen.

    Args:
        pictures: [n, 1, 8, 8], uint8.
        generator: source of the variation.

    Returns:
        [n, 1, 48, 48], float32 in [0, 1], light ink on black.
    """
    n = len(pictures)

    def between(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(n, generator=generator)

    large = F.interpolate(pictures.float() / 255, size=(_SIDE - 16, _SIDE - 16), mode="bicubic", align_corners=False)
    large = F.pad(large, (8, 8, 8, 8))
    angle, slant = between(-0.2, 0.2), between(-0.25, 0.25)
    stretch_x, stretch_y = between(0.85, 1.2), between(0.9, 1.1)
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros(n)
    matrix = torch.stack(
        [cos * stretch_x, (-sin + slant) * stretch_x, zero, sin * stretch_y, cos * stretch_y, zero], dim=1
    ).reshape(n, 2, 3)
    turned = F.grid_sample(large, F.affine_grid(matrix, list(large.shape), align_corners=False), align_corners=False)
    # A pen: where ink begins, and how sharp its edge is. Lower levels make thicker strokes.
    level, sharpness = between(0.25, 0.6).view(-1, 1, 1, 1), between(4, 20).view(-1, 1, 1, 1)
    return torch.sigmoid((turned - level) * sharpness) - torch.sigmoid(-level * sharpness)


def train(*, epochs: int = 60, seed: int = 0) -> DigitCNN:
    """Train on the training part; each epoch sees every sample once as it is and twice redrawn."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(seed)
    pictures, labels = samples(held_out=False)
    preset = HandwrittenDigit()
    as_they_are = preset(pictures)
    model = DigitCNN().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    steps_per_epoch = -(-3 * len(labels) // 128)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=epochs * steps_per_epoch)
    for epoch in range(epochs):
        inputs = torch.cat([as_they_are, *(preset(drawn(pictures, generator)) for _ in range(2))])
        targets = labels.repeat(3)
        total = 0.0
        for batch in torch.randperm(len(targets), generator=generator).split(128):
            loss = F.cross_entropy(model(inputs[batch]), targets[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        print(f"epoch {epoch + 1:2d}: loss {total / len(targets):.4f}")
    return model.eval()


@torch.inference_mode()
def accuracy(model: nn.Module, *, held_out: bool = True) -> float:
    """Correct answers in percent, on pictures prepared as users' pictures are."""
    pictures, labels = samples(held_out=held_out)
    return 100 * (model(HandwrittenDigit()(pictures)).argmax(1) == labels).float().mean().item()


def main() -> None:
    """Train, measure, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    model = train(epochs=arguments.epochs)
    content = save({name: value.contiguous() for name, value in model.state_dict().items()})
    digest = hashlib.sha256(content).hexdigest()
    path = arguments.out / f"digit_cnn-uci_v1-{digest[:8]}.safetensors"
    path.write_bytes(content)
    print(f"file {path}\nsha256 {digest}\nsize {len(content)}")
    print(f"accuracy: training part {accuracy(model, held_out=False):.3f}, held-out part {accuracy(model):.3f}")


if __name__ == "__main__":
    main()
