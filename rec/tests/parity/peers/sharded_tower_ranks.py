"""Programs of towers for two hosts of one process each, on our library or on torchrec."""

from __future__ import annotations

from sharded_module_ranks import tower_programs

PROGRAMS = tower_programs(2, 0) | tower_programs(2, 1)
