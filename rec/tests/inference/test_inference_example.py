"""The example of serving trains, quantizes, spreads, exports and answers."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "inference_dlrm.py"


def test_the_example_answers_as_many_requests_as_it_was_asked(capsys):
    example = runpy.run_path(str(EXAMPLE))
    example["main"](["--steps", "4", "--clients", "2", "--requests", "3", "--devices", "2", "--bits", "8"])
    printed = capsys.readouterr().out
    assert "t_user | row_wise      | quant          | [0, 1]" in printed
    assert printed.count("6 requests of 2 clients") == 2
    shares = [line.split()[1] for line in printed.splitlines() if line.startswith("right:")]
    assert len(shares) == 2 and abs(float(shares[0][:-1]) - float(shares[1][:-1])) < 5
