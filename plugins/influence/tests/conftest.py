"""Settings that all tests of influence share."""

from __future__ import annotations

import sys
from pathlib import Path

# Models, data and checkpoints that golden values and peers are asked about as well.
sys.path.insert(0, str(Path(__file__).parent / "parity" / "peers"))
