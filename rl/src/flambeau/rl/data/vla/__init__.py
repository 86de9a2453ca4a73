"""Data of models of vision, language and action."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.data.vla.containers import VLAAction as VLAAction
    from flambeau.rl.data.vla.containers import VLAImages as VLAImages
    from flambeau.rl.data.vla.containers import VLAObservation as VLAObservation
    from flambeau.rl.data.vla.metadata import ActionSpace as ActionSpace
    from flambeau.rl.data.vla.metadata import GripperMode as GripperMode
    from flambeau.rl.data.vla.metadata import RobotDatasetMetadata as RobotDatasetMetadata
    from flambeau.rl.data.vla.preprocessing import OpenVLAImagePreprocessor as OpenVLAImagePreprocessor
    from flambeau.rl.data.vla.schema import ACTION_CHUNK_KEY as ACTION_CHUNK_KEY
    from flambeau.rl.data.vla.schema import ACTION_IS_PAD_KEY as ACTION_IS_PAD_KEY
    from flambeau.rl.data.vla.schema import ACTION_KEY as ACTION_KEY
    from flambeau.rl.data.vla.schema import ACTION_TOKENS_KEY as ACTION_TOKENS_KEY
    from flambeau.rl.data.vla.schema import IMAGE_KEY as IMAGE_KEY
    from flambeau.rl.data.vla.schema import INSTRUCTION_KEY as INSTRUCTION_KEY
    from flambeau.rl.data.vla.schema import OBSERVATION_KEY as OBSERVATION_KEY
    from flambeau.rl.data.vla.schema import STATE_KEY as STATE_KEY
    from flambeau.rl.data.vla.schema import VLA_ACTION_KEY as VLA_ACTION_KEY
    from flambeau.rl.data.vla.schema import validate_vla_tensordict as validate_vla_tensordict
    from flambeau.rl.data.vla.tokenizers import ActionTokenizerBase as ActionTokenizerBase
    from flambeau.rl.data.vla.tokenizers import UniformActionTokenizer as UniformActionTokenizer
    from flambeau.rl.data.vla.tokenizers import VocabTailActionTokenizer as VocabTailActionTokenizer

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "containers": ("VLAAction", "VLAImages", "VLAObservation"),
        "metadata": ("ActionSpace", "GripperMode", "RobotDatasetMetadata"),
        "preprocessing": ("OpenVLAImagePreprocessor",),
        "schema": (
            "ACTION_CHUNK_KEY",
            "ACTION_IS_PAD_KEY",
            "ACTION_KEY",
            "ACTION_TOKENS_KEY",
            "IMAGE_KEY",
            "INSTRUCTION_KEY",
            "OBSERVATION_KEY",
            "STATE_KEY",
            "VLA_ACTION_KEY",
            "validate_vla_tensordict",
        ),
        "tokenizers": ("ActionTokenizerBase", "UniformActionTokenizer", "VocabTailActionTokenizer"),
    },
)
