"""`python -m flambeau.rl.render`, see `flambeau.rl.render.cli`."""

from __future__ import annotations

import sys

from flambeau.rl.render.cli import main

sys.exit(main())
