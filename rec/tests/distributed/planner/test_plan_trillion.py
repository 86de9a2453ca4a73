"""The example plans a model for devices that are not there, and prints its report."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "plan_trillion.py"


def test_the_example_prints_a_report_and_draws_the_loads(capsys, tmp_path):
    picture = tmp_path / "loads.svg"

    runpy.run_path(str(EXAMPLE))["main"](
        ["--gpus", "16", "--tables", "5", "--parameters", "1e10", "--svg", str(picture), "--debug"]
    )

    printed = capsys.readouterr().out
    assert "5 tables with 9,999,99" in printed
    assert "16 GPUs, planned in" in printed
    assert "sparse.table_0004" in printed
    assert picture.read_text().startswith("<svg")
