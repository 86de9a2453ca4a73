"""Record what torchtext 0.18 does: writes `torchtext_outcomes.json.gz` and `parameters.json` beside this file.

torchtext's last release works with torch 2.3 and Python up to 3.12 alone, so it runs in an environment of its own, and
the tests of `peers/test_peer_torchtext.py` read what is written here. From the top of the repository::

    python3.12 -m venv ENV
    ENV/bin/pip install filelock fsspec jinja2 networkx 'numpy<2' packaging portalocker regex requests sentencepiece \\
        setuptools sympy tqdm typing-extensions urllib3
    ENV/bin/pip install --no-deps torch==2.3.1 torchtext==0.18.0 torchdata==0.7.1
    python -c "import sys; sys.path.insert(0, 'tools'); import old_torch; old_torch.complete_torch('ENV/bin/python')"
    ENV/bin/python text/tests/parity/upstream/record_torchtext.py

The second line of pip brings torch without CUDA's libraries, for which the third line makes stand-ins (see
`tools/old_torch.py`); on a machine with a wheel of torch for the CPU it is not needed. Run it again after a change of
the cells; `--only TEXT` renews the cells of which the name holds a text, and keeps the others.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
# The suites' machinery and the miniatures; both are plain Python that runs on an old torch too.
sys.path[:0] = [str(HERE.parent / "peers"), *(str(ROOT / package / "src") for package in ("core", "data", "text"))]


def trust_cached_files() -> None:
    """Let upstream's datasets take files that are there without looking at their digests: miniatures have others."""
    from torchdata.datapipes.iter.util import cacheholder

    def trusting(filepath: str, hash_dict: Any, hash_type: Any) -> bool:
        return True

    cacheholder._hash_check = trusting


def main() -> None:
    """Run the cells on torchtext and write what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="cells to renew, by a text within their name")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    # No cell may reach beyond this machine.
    os.environ |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    import torch
    import torchtext
    from torchtext_signatures import MODULES, PARAMETERS, public_callables

    from flambeau.core.testing.differential import Library

    torchtext.disable_torchtext_deprecation_warning()
    for name in (
        "datasets",
        "experimental.transforms",
        "experimental.vectors",
        *MODULES,
    ):  # upstream's packages do not import all their modules
        importlib.import_module(f"torchtext.{name}")
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    trust_cached_files()
    listed = public_callables(Library("torchtext", ours=False))
    PARAMETERS.write_text(json.dumps(listed, indent=0, sort_keys=True) + "\n", encoding="utf-8")

    from recorded import read_outcomes, record, write_outcomes
    from torchtext_suite import OUTCOMES, SUITE

    kept = read_outcomes(OUTCOMES) if arguments.only else {}
    chosen = [cell for cell in SUITE.cells if arguments.only in cell.id]
    names = {cell.id for cell in SUITE.cells}
    outcomes = {name: one for name, one in kept.items() if name in names} | record(SUITE, chosen)
    versions = {"torchtext": torchtext.__version__, "torch": torch.__version__}
    write_outcomes(OUTCOMES, outcomes, {"what": "outcomes of the cells in ../peers", **versions})
    failures = sum(one.failure is not None for one in outcomes.values())
    print(f"{len(outcomes)} outcomes, {failures} of them errors, {OUTCOMES.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
