"""Pictures, films and notebooks of policies at work."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.render._rendering import render_policy as render_policy
    from flambeau.rl.render.artifacts import *
    from flambeau.rl.render.backends.mujoco import MujocoStateReader as MujocoStateReader
    from flambeau.rl.render.checkpoint import *
    from flambeau.rl.render.config import *
    from flambeau.rl.render.env import *
    from flambeau.rl.render.films import film as film
    from flambeau.rl.render.import_utils import *
    from flambeau.rl.render.mujoco_wasm import *
    from flambeau.rl.render.policy import *
    from flambeau.rl.render.rollout import *
    from flambeau.rl.render.video import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_rendering": ("render_policy",),
        "artifacts": ("write_render_artifact",),
        "backends.mujoco": ("MujocoStateReader",),
        "checkpoint": ("checkpoint_hash", "infer_state_dict", "load_checkpoint", "save_render_checkpoint"),
        "config": (
            "CameraLayout",
            "EnvBackendName",
            "ExplorationMode",
            "FrameBundle",
            "NotebookRenderBackendName",
            "NotebookRolloutMode",
            "RenderBackendName",
            "RenderConfig",
            "RenderEnvSpec",
            "RenderFormat",
            "RenderPolicySpec",
            "RenderResult",
            "key_to_string",
            "parse_nested_key",
        ),
        "env": ("add_step_counter", "make_render_env", "normalize_env", "seed_env"),
        "films": ("film",),
        "import_utils": ("call_with_supported_kwargs", "import_from_string"),
        "mujoco_wasm": ("extract_qpos_trajectory",),
        "policy": ("TensorDictPolicyAdapter", "load_render_policy", "normalize_policy"),
        "rollout": ("collect_render_rollouts",),
        "video": (
            "compose_frame_grid",
            "encode_gif",
            "encode_video",
            "normalize_frame",
            "normalize_frame_output",
            "write_png",
        ),
    },
    submodules=("backends", "cli", "notebook", "scenes"),
)
