"""`python -m flambeau.core.cli` is the `flambeau` program."""

from __future__ import annotations

import sys

from flambeau.core.cli import main

sys.exit(main())
