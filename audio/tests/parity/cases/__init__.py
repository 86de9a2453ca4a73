"""Golden cases of the audio domain: what is computed, on which inputs.

Each case is a function of the root of an audio package, upstream's or ours. Inputs come from
`flambeau.core.testing.fill`, weights from its `fill_`; no random generator is used. A case may give
{"out": ..., "grad": ...}: grad is the gradient of sum(out * tensor("cot", out.shape)) at the first input.
"""

from . import alignment, beamforming, decoders, features, filters, models, spectra
from .registry import DECODERS, FUNCTIONAL, MODELS
