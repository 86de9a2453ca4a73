"""Draw the learning curves of runs: `python rl/recipes/learning_curves.py RUN.. --out curve.png --threshold 475`.

A RUN is the folder of `flambeau rl train`; all are of one algorithm and one environment, and of other seeds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from flambeau.rl.runs.curves import draw_curves


def main() -> None:
    """Read the runs, draw, and print the returns of their policies."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threshold", type=float)
    arguments = parser.parse_args()
    facts = [json.loads((run / "run.json").read_text()) for run in arguments.runs]
    curves = [json.loads((run / "evaluation.json").read_text()) for run in arguments.runs]
    title = f"{facts[0]['algorithm'].upper()} on {facts[0]['env']}"
    draw_curves(curves, arguments.out, title=title, threshold=arguments.threshold)
    for run, fact in zip(arguments.runs, facts, strict=True):
        result = json.loads((run / "result.json").read_text())
        print(f"seed {fact['seed']}: {result['return']:.1f} +- {result['std']:.1f} after {result['frames']:,} steps")


if __name__ == "__main__":
    main()
