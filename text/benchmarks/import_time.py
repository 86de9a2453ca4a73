"""How long importing flambeau.text takes beyond torch, module by module and all together.

    python text/benchmarks/import_time.py [--rounds 5] [--package torchtext]

Each in a process of its own; CPU milliseconds beyond those of `import torch`, the least of all rounds. Listing needs no
torch: its line is the whole process, interpreter included. `--package torchtext` measures that package alone, in the
interpreter that runs this file. Exits with 1 when everything together takes more than 50 ms.
"""

from __future__ import annotations

import argparse
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
LISTING = "from flambeau.core.registry import MODELS, DATASETS; MODELS.list('text/*'); DATASETS.list('text/*')"
MEASURE = """
import time
{before}
start = time.process_time()
{statement}
print((time.process_time() - start) * 1e3)
"""


def milliseconds(statement: str, before: str) -> float:
    """CPU time of a statement in a new process."""
    code = MEASURE.format(before=before, statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--package", default="flambeau.text")
    given = parser.parse_args()
    cases = {name: statement.format(given.package) for name, statement in CASES.items()}
    cases["all of these"] = "\n".join(cases.values())
    least = {name: min(milliseconds(one, "import torch") for _ in range(given.rounds)) for name, one in cases.items()}
    for name, value in least.items():
        print(f"{name:<16} {value:8.1f} ms beyond torch")
    if given.package == "flambeau.text":
        code = f"import sys\n{LISTING}\nassert 'torch' not in sys.modules"
        listing = min(milliseconds(code, "") for _ in range(given.rounds))
        print(f"{'listing':<16} {listing:8.1f} ms, without torch")
    missed = given.package == "flambeau.text" and least["all of these"] > MOST_MS
    if missed:
        print(f"missed: all of these within {MOST_MS} ms")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
