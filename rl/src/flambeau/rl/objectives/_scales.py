"""Scales of values and rewards, by the names that losses have them under."""

from __future__ import annotations

from flambeau.rl.modules.functional import symexp as symexp
from flambeau.rl.modules.functional import symlog as symlog
from flambeau.rl.modules.models.model_based import two_hot_cross_entropy as two_hot_cross_entropy
from flambeau.rl.modules.models.model_based import two_hot_decode as two_hot_decode
from flambeau.rl.modules.models.model_based import two_hot_encode as two_hot_encode
