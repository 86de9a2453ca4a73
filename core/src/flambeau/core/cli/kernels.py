"""`flambeau kernels status`: which native libraries there are, and which implementation serves.

`--json` prints the array that `flambeau.core.native.status()` returns::

    {"namespace", "package", "library": path|null, "provider": "dispatcher"|"ctypes"|"python", "reason", "threads",
     "operators": [{"name", "provider": text|null, "triton": text|null}]}
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from flambeau.core.cli.output import Column, print_table
from flambeau.core.cli.parser import Parser, add_json


def show_operators(operators: Sequence[Mapping[str, Any]]) -> str:
    """The names of operators, in one cell."""
    return ", ".join(operator["name"] for operator in operators)


COLUMNS = (
    Column("namespace", "namespace"),
    Column("provider", "served by"),
    Column("threads", "threads"),
    Column("operators", "operators", show_operators, raw=show_operators),
    Column("library", "library"),
    Column("reason", "why not better"),
)


def configure(parser: Parser) -> None:
    """Add the action `status`."""
    actions = parser.actions(default="status")
    status = actions.add_parser("status", help="print the state of each library (the default); imports torch")
    add_json(status)
    status.set_defaults(run=run_status)


def run_status(arguments: argparse.Namespace) -> int:
    """Load each library and print who serves its operators."""
    from flambeau.core.native.report import status

    print_table(status(), COLUMNS, as_json=arguments.json, nothing="no installed plugin has native kernels")
    return 0
