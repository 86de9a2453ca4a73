"""The recipes stand beside the package, not in it: their folder joins the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes"))
