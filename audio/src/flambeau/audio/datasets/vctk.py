"""VCTK: 110 speakers of English with various accents.

References:
    Yamagishi et al. 2019, CSTR VCTK Corpus: English Multi-speaker Corpus for CSTR Voice Cloning Toolkit (version 0.92).
    doi:10.7488/ds/2645
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flambeau.audio.datasets._recordings import Listed, archive, chosen, fields, from_elsewhere
from flambeau.core.datasets import DatasetInfo, register_dataset

__all__ = ["VCTK_092"]

_URL = "https://datashare.is.ed.ac.uk/bitstream/handle/10283/3443/VCTK-Corpus-0.92.zip"
_FOLDER = "VCTK-Corpus-0.92"
_INFO = DatasetInfo(
    name="vctk_092",
    task="speech-synthesis",
    splits=("all",),
    files=(archive(_URL, "f96258be9fdc2cbff6559541aae7ea4f59df3fcaf5cf963aae5ca647357e359c", _FOLDER, into=_FOLDER),),
    schema=fields("transcript", "speaker_id", "utterance_id"),
    license="CC-BY-4.0",
    citation="@misc{yamagishi2019vctk, author={Yamagishi, Junichi and others}, title={CSTR VCTK Corpus: English "
    "Multi-speaker Corpus for CSTR Voice Cloning Toolkit (version 0.92)}, year={2019}}",
    homepage="https://datashare.ed.ac.uk/handle/10283/3443",
    description="110 speakers of English, about 400 sentences each, by two microphones, 48 kHz.",
)


@register_dataset(info=_INFO)
class VCTK_092(Listed):
    """110 speakers of English with various accents, about 400 sentences each, by two microphones; 48 kHz.

    Args:
        root: folder that holds, or shall hold, `VCTK-Corpus-0.92`.
        mic_id: "mic1" or "mic2". Sentences that this microphone did not record are left out, as is speaker p315, of "
        "whom
            there are no texts.
        download: fetch the archive (11 GB) where the folder is not in place.
        url: its address.
        audio_ext: suffix of the recordings, where they were converted.

    Items are (waveform, sample rate, transcript, speaker, utterance).

    Raises:
        DatasetMissingError: the folder is missing, and `download` is False.
        ValueError: another microphone.
    """

    def __init__(
        self,
        root: str | Path,
        mic_id: str = "mic2",
        download: bool = False,
        url: str = _URL,
        audio_ext: str = ".flac",
    ) -> None:
        self._mic_id = chosen(mic_id, "mic_id", ("mic1", "mic2"))
        self._audio_ext = audio_ext
        self._path = from_elsewhere(_INFO, root, url, _FOLDER, download=download, into=_FOLDER) / _FOLDER
        self._txt_dir = self._path / "txt"
        self._audio_dir = self._path / "wav48_silence_trimmed"
        texts = sorted(self._txt_dir.glob("*/*.txt"))
        names = ((path.parent.name, path.stem) for path in texts if path.parent.name != "p315")
        self._sample_ids = [(speaker, name) for speaker, name in names if self._recording(speaker, name).is_file()]

    def _recording(self, speaker: str, name: str) -> Path:
        return self._audio_dir / speaker / f"{name}_{self._mic_id}{self._audio_ext}"

    def _entry(self, n: int) -> tuple[Path, tuple[Any, ...]]:
        speaker, name = self._sample_ids[n]
        transcript = (self._txt_dir / speaker / f"{name}.txt").read_text(encoding="utf-8").partition("\n")[0]
        return self._recording(speaker, name), (transcript, speaker, name.partition("_")[2])

    def __len__(self) -> int:
        return len(self._sample_ids)
