"""Train `spiral_net`: `python recipes/spiral_net.py --out FOLDER`.

Data: the training split of the plugin's dataset, 2,000 points; the accuracy is measured on the test split, 1,000 other
points. The run is deterministic (one thread, fixed seeds) and takes some seconds. It writes
`spiral_net-v1-<hash>.safetensors` and prints what belongs into `weights.py`.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import torch
from safetensors.torch import save
from torch import nn

from flambeau_plugin_example.datasets import Spirals
from flambeau_plugin_example.models import SpiralNet

STEPS = 2000


def train() -> SpiralNet:
    """A trained model."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, data = SpiralNet(), Spirals("train")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=STEPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data.points), data.labels).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def accuracy(model: nn.Module, split: str) -> float:
    """Percentage of points whose spiral the model finds."""
    data = Spirals("test" if split == "test" else "train")
    with torch.inference_mode():
        return 100 * float((model(data.points).argmax(-1) == data.labels).float().mean())


def main() -> None:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("."))
    folder = parser.parse_args().out
    model = train()
    content = save(model.state_dict())
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"spiral_net-v1-{digest[:8]}.safetensors"
    path.write_bytes(content)
    print(f"{path}\nsha256 {digest}\nsize {len(content)}\nparameters {sum(p.numel() for p in model.parameters())}")
    print(f"accuracy {accuracy(model, 'train'):.1f} (train) {accuracy(model, 'test'):.1f} (test)")


if __name__ == "__main__":
    main()
