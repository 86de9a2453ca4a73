"""`flambeau influence MODEL --dataset DATASET`: which training examples a registered model's answers come from.

Models, weights and datasets come from whichever plugin registers them. `--json` prints::

    {"model", "weights", "dataset", "method", "train": int,
     "rows": [{"test": int, "label", "predicted", "proponents": [{"train", "label", "score"}], "opponents": [..]}],
     "self_influence": [{"train", "label", "score"}]}
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.utils.data import Dataset

__all__ = ["configure"]

_METHODS = ("fast", "tracin", "trak", "arnoldi")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments, and say what to run."""
    parser.description = "Show which training examples speak most for a model's answers, and which against them."
    parser.add_argument("model", metavar="MODEL", help="name of a registered model, such as vision/digit_cnn")
    parser.add_argument("--dataset", required=True, metavar="NAME", help="name of a registered dataset")
    parser.add_argument("--weights", default="DEFAULT", metavar="NAME", help="of the model; default: %(default)s")
    parser.add_argument("--checkpoint", action="append", default=[], metavar="FILE", help="instead; may be repeated")
    parser.add_argument("--root", metavar="FOLDER", help="where the dataset's files are")
    parser.add_argument("--split", default="train", help="of training examples; default: %(default)s")
    parser.add_argument("--test-split", default="test", help="of test examples; default: %(default)s")
    parser.add_argument("--download", action="store_true", help="fetch the dataset's files")
    parser.add_argument("--train", type=int, default=2000, metavar="N", help="the first N; default: %(default)s")
    parser.add_argument("--test", type=int, nargs="+", default=[0, 1, 2], metavar="I", help="positions; default: 0 1 2")
    parser.add_argument("--method", choices=_METHODS, default="fast", help="default: %(default)s")
    parser.add_argument("--layer", metavar="NAME", help="whose gradients count; default: the last linear layer")
    parser.add_argument("--top", type=int, default=4, metavar="K", help="examples to show; default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=256, metavar="N", help="default: %(default)s")
    parser.add_argument("--self", action="store_true", help="show the training examples that only they explain instead")
    parser.add_argument("--out", type=Path, metavar="FILE", help="draw the examples into a picture")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compute and show; returns the exit code."""
    import torch

    from flambeau.core import get_model
    from flambeau.core.errors import CommandError

    model = get_model(arguments.model, weights=None if arguments.checkpoint else arguments.weights).eval()
    transform = _transform(arguments)
    train = _examples(arguments, arguments.split, range(arguments.train), transform)
    test = _examples(arguments, arguments.test_split, arguments.test, transform)
    if not len(train) or not len(test):
        raise CommandError(f"{arguments.dataset} gave no examples; look at --train and --test.")
    method = _method(arguments, model, train)
    report: dict[str, Any] = {
        "model": arguments.model,
        "weights": arguments.checkpoint or arguments.weights,
        "dataset": arguments.dataset,
        "method": arguments.method,
        "train": len(train),
        "rows": [],
        "self_influence": [],
    }
    if arguments.self:
        scores = method.self_influence()
        for place in scores.argsort(descending=True)[: arguments.top].tolist():
            report["self_influence"].append(_of(train, place, float(scores[place])))
    else:
        inputs = torch.utils.data.default_collate([test[i] for i in range(len(test))])
        scores = method.influence(tuple(inputs))
        with torch.inference_mode():
            answers = model(inputs[0]).argmax(-1).tolist()
        for i in range(len(test)):
            best, worst = (scores[i].argsort(descending=most)[: arguments.top].tolist() for most in (True, False))
            report["rows"].append(
                {
                    "test": arguments.test[i],
                    "label": int(test[i][1]),
                    "predicted": answers[i],
                    "proponents": [_of(train, place, float(scores[i, place])) for place in best],
                    "opponents": [_of(train, place, float(scores[i, place])) for place in worst],
                }
            )
    if arguments.out is not None:
        _draw(report, train, test, arguments.out)
    print(json.dumps(report) if arguments.json else _table(report))
    return 0


class _Examples:
    """Some examples of a dataset, preprocessed, as (input, label)."""

    def __init__(self, dataset: Dataset[Any], places: list[int], transform: Any, name: str) -> None:
        self.dataset, self.places, self.transform, self.name = dataset, places, transform, name

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        if not 0 <= place < len(self.places):
            raise IndexError(place)
        value, label = self.raw(place)
        return (self.transform(value) if self.transform is not None else value), label

    def raw(self, place: int) -> tuple[Any, int]:
        """As the dataset has it."""
        from flambeau.influence.errors import BatchError

        item = self.dataset[self.places[place]]
        if not isinstance(item, tuple) or len(item) != 2:
            raise BatchError(
                f"An item of {self.name} is a {type(item).__name__}, expected (input, label): influence is that of "
                "labelled examples."
            )
        try:
            return item[0], int(item[1])
        except (TypeError, ValueError) as error:
            raise BatchError(
                f"{self.name} has labels such as {item[1]!r:.60}, expected the number of a class."
            ) from error


def _transform(arguments: argparse.Namespace) -> Any:
    from flambeau.core import get_model_weights, get_weight

    if arguments.weights == "DEFAULT" or "." not in arguments.weights:
        try:
            return getattr(get_model_weights(arguments.model), arguments.weights).transforms()
        except (ValueError, AttributeError):
            if arguments.checkpoint:
                return None
            raise
    return get_weight(arguments.weights).transforms()


def _examples(arguments: argparse.Namespace, split: str, places: Any, transform: Any) -> _Examples:
    from flambeau.core import get_dataset
    from flambeau.core.errors import CommandError

    options = {"split": split} | ({"root": arguments.root} if arguments.root else {})
    if arguments.download:
        options["download"] = True
    try:
        dataset = get_dataset(arguments.dataset, **options)
    except TypeError as error:
        if "root" not in options and "'root'" in str(error):
            raise CommandError(
                f"{arguments.dataset} needs the folder that its files are in; pass --root FOLDER, and --download to "
                "fetch them into it."
            ) from error
        # Datasets that are split by `train`, as torchvision's older ones are.
        options["train"] = options.pop("split") == "train"
        dataset = get_dataset(arguments.dataset, **options)
    count = len(dataset)
    if isinstance(places, range):
        places = places[:count]
    elif bad := [place for place in places if not 0 <= place < count]:
        raise CommandError(f"{arguments.dataset} has {count} examples in split {split!r}; there is no {bad[0]}.")
    return _Examples(dataset, list(places), transform, arguments.dataset)


def _method(arguments: argparse.Namespace, model: nn.Module, train: Any) -> Any:
    import copy

    from torch import nn

    from flambeau.core.errors import CommandError
    from flambeau.influence import TRAK, ArnoldiInfluenceFunction, TracInCP, TracInCPFast
    from flambeau.influence._utils.common import _load_flexible_state_dict

    layer = arguments.layer
    if layer is None and arguments.method not in ("tracin", "trak"):
        linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
        if not linear:
            raise CommandError(
                f"{arguments.model} has no linear layer; choose one with --layer, or --method tracin or trak."
            )
        layer = linear[-1]
    checkpoints = arguments.checkpoint or [copy.deepcopy(model.state_dict())]
    load, size = _load_flexible_state_dict, arguments.batch_size
    if arguments.method == "fast":
        loss = nn.CrossEntropyLoss(reduction="sum")
        return TracInCPFast(model, layer, train, checkpoints, load, loss_fn=loss, batch_size=size)
    loss = nn.CrossEntropyLoss(reduction="none")
    layers = None if layer is None else [layer]
    if arguments.method == "trak":
        return TRAK(model, train, checkpoints, load, layers, batch_size=size)
    if arguments.method == "tracin":
        return TracInCP(model, train, checkpoints, load, layers, loss_fn=loss, batch_size=size)
    return ArnoldiInfluenceFunction(model, train, checkpoints[-1], load, layers, loss_fn=loss, batch_size=size)


def _of(train: _Examples, place: int, score: float) -> dict[str, Any]:
    return {"train": train.places[place], "label": train.raw(place)[1], "score": score}


def _table(report: dict[str, Any]) -> str:
    if report["self_influence"]:
        lines = ["training example  label  self influence"]
        lines += [f"{one['train']:>16}  {one['label']:>5}  {one['score']:14.4g}" for one in report["self_influence"]]
        return "\n".join(lines)
    lines = []
    for row in report["rows"]:
        lines.append(f"test example {row['test']}: label {row['label']}, predicted {row['predicted']}")
        for side, name in (("proponents", "for"), ("opponents", "against")):
            shown = ", ".join(f"{one['train']} (label {one['label']}, {one['score']:.3g})" for one in row[side])
            lines.append(f"  {name:8} {shown}")
    return "\n".join(lines)


def _draw(report: dict[str, Any], train: _Examples, test: _Examples, path: Path) -> None:
    from flambeau.influence.pictures import Row, draw_rows

    def drawn(one: dict[str, Any]) -> tuple[Any, str]:
        place = train.places.index(one["train"])
        return train.raw(place)[0], f"{one['train']}: label {one['label']}\n{one['score']:.3g}"

    if report["self_influence"]:
        found = [drawn(one) for one in report["self_influence"]]
        draw_rows([Row(None, "", found, [])], path, ("", "largest self influence", ""))
    else:
        draw_rows(
            [
                Row(
                    test.raw(i)[0],
                    f"{row['test']}: label {row['label']}\npredicted {row['predicted']}",
                    [drawn(one) for one in row["proponents"]],
                    [drawn(one) for one in row["opponents"]],
                )
                for i, row in enumerate(report["rows"])
            ],
            path,
        )
    print(f"drawn into {path}", file=sys.stderr)
