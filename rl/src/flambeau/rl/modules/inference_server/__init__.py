"""One policy for many environments: a server that answers their requests in batches."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.modules.inference_server._client import InferenceClient as InferenceClient
    from flambeau.rl.modules.inference_server._client import PolicyClientModule as PolicyClientModule
    from flambeau.rl.modules.inference_server._config import InferenceDeviceConfig as InferenceDeviceConfig
    from flambeau.rl.modules.inference_server._config import InferenceServerConfig as InferenceServerConfig
    from flambeau.rl.modules.inference_server._monarch import MonarchTransport as MonarchTransport
    from flambeau.rl.modules.inference_server._mp import MPTransport as MPTransport
    from flambeau.rl.modules.inference_server._process_server import ProcessInferenceServer as ProcessInferenceServer
    from flambeau.rl.modules.inference_server._process_slot import ProcessSlotTransport as ProcessSlotTransport
    from flambeau.rl.modules.inference_server._ray import RayTransport as RayTransport
    from flambeau.rl.modules.inference_server._server import InferenceServer as InferenceServer
    from flambeau.rl.modules.inference_server._shared_memory import SharedMemoryTransport as SharedMemoryTransport
    from flambeau.rl.modules.inference_server._slot import SlotTransport as SlotTransport
    from flambeau.rl.modules.inference_server._threading import ThreadingTransport as ThreadingTransport
    from flambeau.rl.modules.inference_server._transport import InferenceTransport as InferenceTransport

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_client": ("InferenceClient", "PolicyClientModule"),
        "_config": ("InferenceDeviceConfig", "InferenceServerConfig"),
        "_monarch": ("MonarchTransport",),
        "_mp": ("MPTransport",),
        "_process_server": ("ProcessInferenceServer",),
        "_process_slot": ("ProcessSlotTransport",),
        "_ray": ("RayTransport",),
        "_server": ("InferenceServer",),
        "_shared_memory": ("SharedMemoryTransport",),
        "_slot": ("SlotTransport",),
        "_threading": ("ThreadingTransport",),
        "_transport": ("InferenceTransport",),
    },
)
