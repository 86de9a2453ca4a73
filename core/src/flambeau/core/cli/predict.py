"""`flambeau predict`: run a pretrained model on a file or a text, and print or draw the answer.

`--json` prints::

    {"source": path|[path, ..], "task", "model": id, "weights": id, "title", "columns": [..], "rows": [{..}],
     "out": path|null}
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from flambeau.core.cli.output import Column, on_terminal, plain, print_json, print_table
from flambeau.core.cli.parser import Parser, add_json
from flambeau.core.errors import CommandError

DTYPES = ("float32", "float16", "bfloat16", "float64")


def configure(parser: Parser) -> None:
    """Add the input, and what to run on it."""
    parser.add_argument(
        "input",
        metavar="INPUT",
        nargs="*",
        help="a file, or two where a task compares them; for tasks about texts also the text itself, or - for stdin",
    )
    parser.add_argument("--env", metavar="ID", help="let a policy act in this environment, such as CartPole-v1")
    parser.add_argument(
        "--weights", metavar="NAME", help="such as vision/resnet50:DEFAULT (default: by the file's suffix)"
    )
    parser.add_argument("--model", metavar="NAME", help="use this model's weights, the default ones if none are named")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="the most rows to print (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="draw the answer into this file")
    parser.add_argument("--device", default="cpu", help="where to compute (default: %(default)s)")
    parser.add_argument("--dtype", choices=DTYPES, help="compute in this type (default: the model's own)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Predict, print the rows, draw if asked to."""
    from flambeau.core import predict

    options = predict.PredictOptions(top=arguments.top)
    if bool(arguments.input) == (arguments.env is not None):
        raise CommandError("give either an INPUT, or an environment by --env; `flambeau predict --help` tells more.")
    if arguments.env is not None:
        arguments.input = [arguments.env]
        plan = predict.plan_environment(arguments.env, weights=arguments.weights, model=arguments.model)
    else:
        source = _stdin() if arguments.input == ["-"] else arguments.input
        plan = predict.plan(source, weights=arguments.weights, model=arguments.model)
    if arguments.out is not None and not arguments.out.absolute().parent.is_dir():
        raise CommandError(f"--out: the folder {arguments.out.parent} does not exist; create it first.")
    prediction = predict.run(plan, device=arguments.device, dtype=arguments.dtype, options=options)
    if arguments.out is not None:
        _draw(prediction, arguments.out)
    if arguments.json:
        print_json(_record(plan, prediction, arguments))
        return 0
    if on_terminal():
        print(prediction.title)
    columns = [_column(key) for key in prediction.columns]
    print_table(prediction.rows, columns, nothing="nothing was found")
    if arguments.out is not None:
        print(f"flambeau: the answer is drawn in {arguments.out}", file=sys.stderr)
    return 0


def show_cell(value: Any) -> str:
    """A value of a row; numbers with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else plain(value)


def show_probability(value: Any) -> str:
    """A probability in percent."""
    return f"{100 * value:.1f} %" if isinstance(value, float) else plain(value)


def _column(key: str) -> Column:
    # An answer is for people wherever it is printed; programs take --json.
    show = show_probability if key == "probability" else show_cell
    return Column(key, key, show, raw=show, number=key == "probability")


def _stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise CommandError(f"stdin is not text ({error.reason}); give other inputs as files.") from error


def _draw(prediction: Any, path: Path) -> None:
    if prediction.draw is None:
        raise CommandError("--out: this task has no picture of its answer; leave --out away, or use --json.")
    prediction.draw(path)


def _record(plan: Any, prediction: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "source": arguments.input[0] if len(arguments.input) == 1 else arguments.input,
        "task": plan.task,
        "model": plan.model.id,
        "weights": plan.weights.id,
        "title": prediction.title,
        "columns": list(prediction.columns),
        "rows": prediction.rows,
        "out": str(arguments.out) if arguments.out else None,
    }
