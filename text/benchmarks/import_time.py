"""How long importing flambeau.text takes beyond torch, module by module and all together.

    python text/benchmarks/import_time.py [--rounds 5] [--package torchtext]

Each in a process of its own, from compiled bytecode as an installed package has it; CPU milliseconds beyond those of
`import torch`, the least of all rounds. Listing needs no torch. `--package torchtext` measures that package alone, in
the interpreter that runs this file. Exits with 1 when everything together takes more than 50 ms.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

MOST_MS = 50
CASES = {
    "the package": "import {0}",
    "transforms": "from {0}.transforms import GPT2BPETokenizer, BERTTokenizer, VocabTransform, Sequential",
    "vocab": "from {0}.vocab import Vocab, vocab, build_vocab_from_iterator, GloVe",
    "data": "from {0}.data import bleu_score, get_tokenizer; from {0} import functional",
    "models": "from {0}.models import RobertaModel, T5Model, ROBERTA_BASE_ENCODER",
    "datasets": "from {0}.datasets import AG_NEWS",
}
LISTING = "from flambeau.core.registry import DATASETS, MODELS; MODELS.entries('text'); DATASETS.entries('text')"
MEASURE = """
import time
{before}
start = time.process_time()
{statement}
print((time.process_time() - start) * 1e3)
"""


def milliseconds(statement: str, before: str, rounds: int) -> float:
    """The least CPU time of a statement in new processes."""
    code = MEASURE.format(before=before, statement=statement)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = []
    for _ in range(rounds + 1):  # the first one compiles
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        times.append(float(done.stdout.split()[-1]))
    return min(times)


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--package", default="flambeau.text")
    given = parser.parse_args()
    cases = {name: statement.format(given.package) for name, statement in CASES.items()}
    cases["all of these"] = "\n".join(cases.values())
    ours = given.package == "flambeau.text"
    least = {name: milliseconds(one, "import torch", given.rounds) for name, one in cases.items()}
    code = f"import sys\n{LISTING}\nassert 'torch' not in sys.modules"
    listing = milliseconds(code, "", given.rounds) if ours else 0.0
    for name, value in least.items():
        print(f"{name:<16} {value:8.1f} ms beyond torch")
    if ours:
        print(f"{'listing':<16} {listing:8.1f} ms, without torch")
    missed = ours and least["all of these"] > MOST_MS
    if missed:
        print(f"missed: all of these within {MOST_MS} ms")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
