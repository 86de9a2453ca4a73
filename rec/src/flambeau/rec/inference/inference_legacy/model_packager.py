"""`flambeau.rec.inference.model_packager` under its older path."""

from flambeau.rec.inference.model_packager import (
    CONFIG_MODULE,
    LOADER_CODE,
    LOADER_FACTORY,
    LOADER_MODULE,
    PredictFactoryPackager,
    load_config_text,
    load_pickle_config,
)

__all__ = [
    "CONFIG_MODULE",
    "LOADER_CODE",
    "LOADER_FACTORY",
    "LOADER_MODULE",
    "PredictFactoryPackager",
    "load_config_text",
    "load_pickle_config",
]
