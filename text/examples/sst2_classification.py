"""Fine-tune an encoder to tell negative from positive sentences of film reviews (SST-2, Socher et al. 2013).

    python text/examples/sst2_classification.py --weights xlmr_base
    python text/examples/sst2_classification.py --tiny

The steps: the bundle's transform makes token ids of a text; the pipeline `SST2` gives sentences with labels, which are
mapped, gathered into batches of about one length, and turned into columns; the encoder gets a classification head;
AdamW minimizes cross entropy for an epoch; the accuracy on the development split is printed after each.

`--tiny` runs without network in less than a minute: the language identifier that is part of the package stands in for
the encoder, and a few hundred sentences that are written here for SST-2. It shows that the parts fit together; what it
learns is which words are kind.

`--checkpoint FILE` keeps model, optimizer and epoch after each epoch, and goes on from the file where it is there.
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from flambeau.text import datasets, models
from flambeau.text.functional import to_tensor
from flambeau.text.models.language_identifier import CharacterWindows

BUNDLES = {
    "roberta_base": models.ROBERTA_BASE_ENCODER,
    "roberta_distilled": models.ROBERTA_DISTILLED_ENCODER,
    "roberta_large": models.ROBERTA_LARGE_ENCODER,
    "xlmr_base": models.XLMR_BASE_ENCODER,
    "xlmr_large": models.XLMR_LARGE_ENCODER,
}


class Characters:
    """The tiny model's transform: ids of a text's characters."""

    def __init__(self) -> None:
        self.windows = CharacterWindows(most=1)

    def __call__(self, text: str) -> list[int]:
        """The ids of one text."""
        return self.windows(text)[0].tolist()


class Classifier(NamedTuple):
    """A pretrained encoder with a new head for two classes, what makes token ids of a text, and the id of padding."""

    model: nn.Module
    transform: Callable[[str], list[int]]
    padding: int


def classifier(name: str) -> Classifier:
    """The tiny classifier, or that of a bundle."""
    if name == "tiny":
        return Classifier(
            models.get_model("language_identifier", weights="DEFAULT", num_classes=2), Characters(), padding=0
        )
    bundle = BUNDLES[name]
    head = models.RobertaClassificationHead(num_classes=2, input_dim=bundle.encoderConf.embedding_dim)
    return Classifier(bundle.get_model(head=head), bundle.transform(), padding=1)


def encoded(transform: Callable[[str], list[int]], sample: tuple[str, int]) -> tuple[list[int], int]:
    """A sample with token ids in place of its text."""
    text, label = sample
    return transform(text), label


def token_count(sample: tuple[list[int], int]) -> int:
    """How long a sample is."""
    return len(sample[0])


def by_length(bucket: list[tuple[list[int], int]]) -> list[tuple[list[int], int]]:
    """A bucket's samples, the shortest first."""
    return sorted(bucket, key=token_count)


def batches(root: str, split: str, transform: Callable[[str], list[int]], batch_size: int) -> DataLoader[Any]:
    """Batches of a split as columns; those for training hold sentences of about one length, in random order."""
    pipe = datasets.SST2(root=root, split=split).map(partial(encoded, transform))
    if split == "train":
        pipe = pipe.bucketbatch(batch_size, batch_num=20, sort_key=by_length)
    else:
        pipe = pipe.batch(batch_size)
    columns = pipe.rows2columnar(["token_ids", "target"])
    return DataLoader(columns, batch_size=None, shuffle=split == "train")


def tensors(batch: dict[str, list[Any]], padding: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids (N, T), padded, and labels (N,)."""
    return to_tensor(batch["token_ids"], padding_value=padding).to(device), torch.tensor(batch["target"]).to(device)


def train_epoch(
    chosen: Classifier, loader: DataLoader[Any], optimizer: torch.optim.Optimizer, device: torch.device, *, bf16: bool
) -> float:
    """One pass over the training split; returns real tokens for each second."""
    model = chosen.model.train()
    start, count = time.perf_counter(), 0
    for batch in loader:
        tokens, labels = tensors(batch, chosen.padding, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            loss = F.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count += int((tokens != chosen.padding).sum())
    return count / (time.perf_counter() - start)


@torch.inference_mode()
def accuracy(chosen: Classifier, loader: DataLoader[Any], device: torch.device, *, bf16: bool) -> float:
    """Correct answers in percent."""
    model = chosen.model.eval()
    right = total = 0
    for batch in loader:
        tokens, labels = tensors(batch, chosen.padding, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            answers = model(tokens).argmax(1)
        right += int((answers == labels).sum())
        total += len(labels)
    return 100 * right / total


def write_tiny_set(root: Path) -> None:
    """Sentences for SST-2, where its files are once they are unpacked: 320 for training and 80 others."""
    kind = ("splendid", "moving", "witty", "graceful", "a delight", "warm and clever", "a joy to watch", "brilliant")
    unkind = ("tedious", "clumsy", "a bore", "lifeless", "painfully dull", "a mess", "shallow and loud", "dreadful")
    subjects = ("the film", "this comedy", "its ending", "the whole cast", "her debut")
    frames = (
        "{} is {} .",
        "i found {} {} .",
        "{} turns out to be {} .",
        "for two hours {} is {} .",
        "{} was simply {} .",
    )
    rows = [
        (frame.format(subject, word), int(words is kind))
        for words in (kind, unkind)
        for frame, subject, word in itertools.product(frames, subjects, words)
    ]
    random.Random(0).shuffle(rows)
    folder = root / "datasets" / "SST2" / "SST-2"
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", rows[:320]), ("dev", rows[320:])):
        lines = ["sentence\tlabel", *(f"{sentence}\t{label}" for sentence, label in part)]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def arguments() -> argparse.Namespace:
    """What the user wishes; `--tiny` has defaults of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--weights", choices=sorted(BUNDLES), default="xlmr_base", help="the encoder")
    parser.add_argument("--tiny", action="store_true", help="the embedded model and a small set, without network")
    parser.add_argument("--root", help="folder of the datasets (default: the cache)")
    parser.add_argument("--epochs", type=int, help="passes over the training split (default: 1, tiny: 4)")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, help="learning rate (default: 1e-5, tiny: 2e-3)")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16 where that is safe")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--checkpoint", type=Path, help="file to keep the state in, and to go on from")
    chosen = parser.parse_args()
    chosen.epochs = chosen.epochs or (4 if chosen.tiny else 1)
    chosen.lr = chosen.lr or (2e-3 if chosen.tiny else 1e-5)
    return chosen


def main() -> None:
    """Train, measure after each epoch, keep the state."""
    chosen = arguments()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as temporary:
        root = chosen.root
        if chosen.tiny:
            root = temporary
            write_tiny_set(Path(root))
        device = torch.device(chosen.device)
        fine_tuned = classifier("tiny" if chosen.tiny else chosen.weights)
        model = fine_tuned.model.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=chosen.lr)
        first = 0
        if chosen.checkpoint is not None and chosen.checkpoint.exists():
            state = torch.load(chosen.checkpoint, map_location=device, weights_only=True)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            first = state["epoch"]
            print(f"going on after epoch {first}")
        train, dev = (batches(root, split, fine_tuned.transform, chosen.batch_size) for split in ("train", "dev"))
        for epoch in range(first, chosen.epochs):
            speed = train_epoch(fine_tuned, train, optimizer, device, bf16=chosen.bf16)
            correct = accuracy(fine_tuned, dev, device, bf16=chosen.bf16)
            print(f"epoch {epoch + 1}: dev accuracy {correct:.2f}, {speed:,.0f} tokens/s", flush=True)
            if chosen.checkpoint is not None:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}
                torch.save(state, chosen.checkpoint)


if __name__ == "__main__":
    main()
