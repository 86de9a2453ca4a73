"""LibriMix: mixtures of two or three speakers of LibriSpeech, with noise of WHAM!.

References:
    Cosentino et al. 2020, LibriMix: An Open-Source Dataset for Generalizable Speech Separation. arXiv:2005.11262
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from flambeau.audio.datasets._recordings import Recordings, chosen, read_waveform, require_folder
from flambeau.core.datasets import DatasetInfo, Field, Gate, register_dataset

__all__ = ["LibriMix"]

_SUBSETS = ("train-360", "train-100", "dev", "test")
_SITE = "https://github.com/JorisCos/LibriMix"
_INFO = DatasetInfo(
    name="librimix",
    task="source-separation",
    splits=_SUBSETS,
    schema=(
        Field("sample_rate", "int"),
        Field("mixture", "waveform", shape=("channels", "time"), dtype="float32"),
        Field("sources", "list"),
    ),
    license="CC-BY-4.0",
    citation="@misc{cosentino2020librimix, author={Cosentino, Joris and others}, title={LibriMix: An Open-Source "
    "Dataset "
    "for Generalizable Speech Separation}, year={2020}, eprint={2005.11262}}",
    homepage=_SITE,
    gated=Gate("manual", _SITE, "Its scripts make the mixtures from LibriSpeech and WHAM!."),
    description="Mixtures of two or three speakers, clean or with noise, 8 or 16 kHz.",
)
_MIXTURES = {"enh_single": "mix_single", "enh_both": "mix_both", "sep_clean": "mix_clean", "sep_noisy": "mix_both"}


@register_dataset(info=_INFO)
class LibriMix(Recordings):
    """Mixtures of two or three speakers, clean or with noise, and what they are mixed from; 8 or 16 kHz.

    Args:
        root: folder that holds `Libri2Mix` or `Libri3Mix`, which LibriMix's scripts make.
        subset: "train-360", "train-100", "dev" or "test".
        num_speakers: 2 or 3.
        sample_rate: 8000 or 16000.
        task: "enh_single" (the first speaker with noise, and each speaker), "enh_both" (all with noise, and without),
            "sep_clean" (all without noise, and each), "sep_noisy" (all with noise, and each).
        mode: "min" ends with the shortest speaker, "max" with the longest.

    Items are (sample rate, mixture, list of sources), waveforms of the same shape.

    Raises:
        DatasetMissingError: the folder is missing.
        ValueError: one of the arguments is another, or the waveforms of an item differ in length.
    """

    split_argument = "subset"

    def __init__(
        self,
        root: str | Path,
        subset: str = "train-360",
        num_speakers: int = 2,
        sample_rate: int = 8000,
        task: str = "sep_clean",
        mode: str = "min",
    ) -> None:
        if sample_rate not in (8000, 16_000):
            raise ValueError(f"sample_rate is {sample_rate}, and LibriMix is made at 8000 and 16000 Hz.")
        mixture = _MIXTURES[chosen(task, "task", list(_MIXTURES))]
        name = f"Libri{num_speakers}Mix"
        self.root = require_folder(_INFO, root, name) / name
        self.sample_rate, self.task = sample_rate, task
        folder = self.root / f"wav{sample_rate // 1000}k" / chosen(mode, "mode", ("min", "max"))
        folder /= chosen(subset, "subset", _SUBSETS)
        self.mix_dir = folder / mixture
        speakers = 0 if task == "enh_both" else num_speakers
        self.src_dirs = [folder / f"s{i + 1}" for i in range(speakers)] or [folder / "mix_clean"]
        self.files = sorted(path.name for path in self.mix_dir.glob("*.wav"))

    def get_metadata(self, key: int) -> tuple[int, str, list[str]]:
        """(sample rate, mixture's path, sources' paths) of item `key`, below the dataset's folder."""
        name = self.files[key]
        mixture, *sources = (
            (folder / name).relative_to(self.root).as_posix() for folder in (self.mix_dir, *self.src_dirs)
        )
        return self.sample_rate, mixture, sources

    def __getitem__(self, key: int) -> tuple[int, Tensor, list[Tensor]]:
        """(sample rate, mixture, sources) number `key`."""
        sample_rate, mixture, sources = self.get_metadata(key)
        mixed = read_waveform(self.root / mixture, sample_rate)
        parts = [read_waveform(self.root / source, sample_rate) for source in sources]
        for path, part in zip(sources, parts, strict=True):
            if part.shape != mixed.shape:
                raise ValueError(f"{path} has the shape {tuple(part.shape)}, but {mixture} {tuple(mixed.shape)}.")
        return sample_rate, mixed, parts

    def __len__(self) -> int:
        return len(self.files)
