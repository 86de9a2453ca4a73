"""Audio of SNIPS: requests to a voice assistant, spoken by synthetic voices.

References:
    Coucke et al. 2018, Snips Voice Platform. arXiv:1805.10190
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from flambeau.audio.datasets._recordings import Recordings, chosen, fields, read_waveform, require_folder
from flambeau.core.datasets import DatasetInfo, Gate, register_dataset

__all__ = ["Snips"]

_SUBSETS = ("train", "valid", "test")
_SITE = "https://github.com/aws-samples/aws-lex-noisy-spoken-language-understanding"
_INFO = DatasetInfo(
    name="snips",
    task="spoken-language-understanding",
    splits=_SUBSETS,
    schema=fields("file_name", "transcript", "iob", "intent"),
    license="CC0-1.0",
    citation="@article{coucke2018snips, author={Coucke, Alice and others}, title={Snips Voice Platform}, year={2018}, "
    "eprint={1805.10190}}",
    homepage=_SITE,
    gated=Gate("manual", _SITE, "Place its folders train, valid, test and all.iob.snips.txt below SNIPS."),
    description="Requests to a voice assistant by 16 synthetic voices, 16 kHz.",
)


@register_dataset(info=_INFO)
class Snips(Recordings):
    """Requests to a voice assistant, spoken by 16 synthetic voices, with slots and intents; 16 kHz.

    Args:
        root: folder that holds `SNIPS`, which is obtained by hand.
        subset: "train" (12 voices), "valid" or "test" (4 others).
        speakers: which voices; all when None.
        audio_format: "mp3" or "wav".

    Items are (waveform, sample rate, file name, transcript, slots as IOB tags, intent).

    Raises:
        DatasetMissingError: the folder is missing.
        ValueError: another subset or format.
    """

    split_argument = "subset"

    def __init__(
        self, root: str | Path, subset: str, speakers: list[str] | None = None, audio_format: str = "mp3"
    ) -> None:
        chosen(subset, "subset", _SUBSETS)
        chosen(audio_format, "audio_format", ("mp3", "wav"))
        self._path = require_folder(_INFO, root, "SNIPS") / "SNIPS"
        self.audio_path = self._path / subset
        self.labels = self._read_labels(subset)
        # A voice's name comes first in the names of its files.
        found = sorted(self.audio_path.glob(f"*.{audio_format}"))
        self.data = [path for path in found if speakers is None or path.name.split("-")[0] in speakers]

    def _read_labels(self, subset: str) -> dict[str, tuple[str, str, str]]:
        labels = {}
        for line in (self._path / "all.iob.snips.txt").read_text(encoding="utf-8").splitlines():
            name, _, rest = line.strip().partition(" ")
            if subset not in name:
                continue
            # Words and tags both have a mark at either end; the last tag's place is the intent's.
            words, tags = (part.split(" ") for part in rest.split("\t"))
            labels[name] = (" ".join(words[1:-1]), " ".join(tags[1:-1]), tags[-1])
        return labels

    def get_metadata(self, n: int) -> tuple[str, int, str, str, str, str]:
        """Item `n` with the recording's path below `SNIPS` in place of the waveform."""
        path = self.data[n]
        return path.relative_to(self._path).as_posix(), 16_000, path.stem, *self.labels[path.stem]

    def __getitem__(self, n: int) -> tuple[Tensor, int, str, str, str, str]:
        """(waveform, sample rate, file name, transcript, tags, intent) number `n`."""
        path, sample_rate, *rest = self.get_metadata(n)
        return (read_waveform(self._path / path, sample_rate), sample_rate, *rest)  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self.data)
