"""Datasets; each loads when its name is first used, and the registry has their facts without loading them."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.audio.datasets.cmuarctic import CMUARCTIC as CMUARCTIC
    from flambeau.audio.datasets.cmudict import CMUDict as CMUDict
    from flambeau.audio.datasets.commonvoice import COMMONVOICE as COMMONVOICE
    from flambeau.audio.datasets.dr_vctk import DR_VCTK as DR_VCTK
    from flambeau.audio.datasets.fluentcommands import FluentSpeechCommands as FluentSpeechCommands
    from flambeau.audio.datasets.gtzan import GTZAN as GTZAN
    from flambeau.audio.datasets.iemocap import IEMOCAP as IEMOCAP
    from flambeau.audio.datasets.librilight_limited import LibriLightLimited as LibriLightLimited
    from flambeau.audio.datasets.librimix import LibriMix as LibriMix
    from flambeau.audio.datasets.librispeech import LIBRISPEECH as LIBRISPEECH
    from flambeau.audio.datasets.librispeech_biasing import LibriSpeechBiasing as LibriSpeechBiasing
    from flambeau.audio.datasets.libritts import LIBRITTS as LIBRITTS
    from flambeau.audio.datasets.ljspeech import LJSPEECH as LJSPEECH
    from flambeau.audio.datasets.musdb_hq import MUSDB_HQ as MUSDB_HQ
    from flambeau.audio.datasets.quesst14 import QUESST14 as QUESST14
    from flambeau.audio.datasets.snips import Snips as Snips
    from flambeau.audio.datasets.speechcommands import SPEECHCOMMANDS as SPEECHCOMMANDS
    from flambeau.audio.datasets.tedlium import TEDLIUM as TEDLIUM
    from flambeau.audio.datasets.vctk import VCTK_092 as VCTK_092
    from flambeau.audio.datasets.voxceleb1 import VoxCeleb1Identification as VoxCeleb1Identification
    from flambeau.audio.datasets.voxceleb1 import VoxCeleb1Verification as VoxCeleb1Verification
    from flambeau.audio.datasets.yesno import YESNO as YESNO

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "cmuarctic": ("CMUARCTIC",),
        "cmudict": ("CMUDict",),
        "commonvoice": ("COMMONVOICE",),
        "dr_vctk": ("DR_VCTK",),
        "fluentcommands": ("FluentSpeechCommands",),
        "gtzan": ("GTZAN",),
        "iemocap": ("IEMOCAP",),
        "librilight_limited": ("LibriLightLimited",),
        "librimix": ("LibriMix",),
        "librispeech": ("LIBRISPEECH",),
        "librispeech_biasing": ("LibriSpeechBiasing",),
        "libritts": ("LIBRITTS",),
        "ljspeech": ("LJSPEECH",),
        "musdb_hq": ("MUSDB_HQ",),
        "quesst14": ("QUESST14",),
        "snips": ("Snips",),
        "speechcommands": ("SPEECHCOMMANDS",),
        "tedlium": ("TEDLIUM",),
        "vctk": ("VCTK_092",),
        "voxceleb1": ("VoxCeleb1Identification", "VoxCeleb1Verification"),
        "yesno": ("YESNO",),
    },
)
