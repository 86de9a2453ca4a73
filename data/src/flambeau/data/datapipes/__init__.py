"""Pipelines built from small parts: `iter` for streams, `map` for collections with keys, `utils` for what both need.

A pipe is a data set that takes another pipe as its source. Pipes are chained by their methods
(`IterableWrapper(range(4)).shuffle().batch(2)`), read by any data loader, and they remember where they are:
`state_dict()` of the last pipe of a pipeline, `load_state_dict()` on an equal one, and it goes on with the next sample.
"""

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, {}, submodules=("dataframe", "datapipe", "iter", "map", "utils"))
