"""Differential tests: small programs run on our library and on the one it replaces, and what came of them compared.

A `Cell` is one call: a function builds its inputs, another makes the call. A `Suite` runs each cell on both libraries,
with inputs and a temporary folder of their own and from the same seed, and compares what can be seen afterwards: the
result (type, shape, dtype, device, values, order of keys, which memory it shares with the inputs), the inputs
themselves, what was printed, the files, and what the *other* library reads from them. Of errors the class counts, not
the wording; warnings are kept apart. A cell is equal, or different on purpose, or it fails::

    # data/tests/parity/peers/test_peer_things.py
    peer = pytest.importorskip("things")
    DIFFERENCES = Path(__file__).with_name("differences.toml")
    SUITE = Suite("things", ours="flambeau.data.things", peer="things", differences=DIFFERENCES)

    # One cell by hand ...
    SUITE.add(Cell("join/of-two", "joining", given=lambda library: {"a": library.Thing(1), "b": library.Thing(2)},
                   call=lambda library, given: given["a"].join(given["b"])))
    # ... or a table of kinds of objects crossed with one-line programs, which see the library's names:
    KINDS = {"thing": {"x": "Thing(1)"}, "lazy": {"x": "LazyThing(1)"}}
    SUITE.add(*cross("methods", KINDS, ["x.double()", "x.rename('y'); x", "torch.stack([x, x])"]))

    # ... or such a table in a text file, with the programs indented below headings.
    SUITE.add(*(cell for name, lines in read_table(path).items() for cell in cross(name, KINDS, lines)))

    @pytest.mark.parametrize("cell", SUITE.cells, ids=str)
    def test_both_libraries_do_the_same(cell):
        SUITE.check(cell)

    def test_every_intended_difference_is_one():
        SUITE.check_differences()

pytest prints the counts of every suite at its end. Without pytest, and for a report of what is unexplained::

    python -m flambeau.core.testing.differential data/tests/parity/peers/test_peer_things.py -k 'methods/lazy/*'

What differs on purpose stands in the package's `differences.toml`, which is rendered into its `MIGRATION.md` as well
(see `differences`). Objects of a domain are taken apart by the suite's `describers` (see `records`).
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.core.testing.differential.cells import Cell as Cell
    from flambeau.core.testing.differential.cells import Library as Library
    from flambeau.core.testing.differential.cells import cross as cross
    from flambeau.core.testing.differential.cells import program as program
    from flambeau.core.testing.differential.cells import read_table as read_table
    from flambeau.core.testing.differential.differences import Difference as Difference
    from flambeau.core.testing.differential.differences import matches as matches
    from flambeau.core.testing.differential.differences import read_differences as read_differences
    from flambeau.core.testing.differential.differences import render_differences as render_differences
    from flambeau.core.testing.differential.execution import Outcome as Outcome
    from flambeau.core.testing.differential.execution import execute as execute
    from flambeau.core.testing.differential.records import Recorder as Recorder
    from flambeau.core.testing.differential.suite import Suite as Suite
    from flambeau.core.testing.differential.suite import Verdict as Verdict

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "cells": ("Cell", "Library", "cross", "program", "read_table"),
        "differences": ("Difference", "matches", "read_differences", "render_differences"),
        "execution": ("Outcome", "execute"),
        "records": ("Recorder",),
        "suite": ("Suite", "Verdict"),
    },
    submodules=("report",),
)
