"""Serve any registered weights, and TorchServe's archives, over HTTP.

::

    flambeau serve vision/resnet50:DEFAULT
    curl -T photo.jpg http://127.0.0.1:8080/predictions/resnet50

In Python: `Server(["vision/resnet50:DEFAULT"])` is a context manager that serves meanwhile.

Importing this package does not import torch; each submodule loads when it is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports
from flambeau.serve.version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.core.services import Service as Service
    from flambeau.serve.server import Server as Server

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {"flambeau.core.services": ("Service",), "server": ("Server",)},
    submodules=("errors",),
)
