"""CMU ARCTIC: about 1,150 sentences, read by each of 18 speakers.

References:
    Kominek and Black 2004, The CMU Arctic speech databases. SSW5
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from flambeau.audio.datasets._recordings import Listed, archive, fields, from_elsewhere
from flambeau.core.datasets import DatasetInfo, register_dataset

__all__ = ["CMUARCTIC"]

_BASE = "http://festvox.org/cmu_arctic/packed"
_SPEAKERS = {
    "aew": "645cb33c0f0b2ce41384fdd8d3db2c3f5fc15c1e688baeb74d2e08cab18ab406",
    "ahw": "024664adeb892809d646a3efd043625b46b5bfa3e6189b3500b2d0d59dfab06c",
    "aup": "2c55bc3050caa996758869126ad10cf42e1441212111db034b3a45189c18b6fc",
    "awb": "d74a950c9739a65f7bfc4dfa6187f2730fa03de5b8eb3f2da97a51b74df64d3c",
    "axb": "dd65c3d2907d1ee52f86e44f578319159e60f4bf722a9142be01161d84e330ff",
    "bdl": "26b91aaf48b2799b2956792b4632c2f926cd0542f402b5452d5adecb60942904",
    "clb": "3f16dc3f3b97955ea22623efb33b444341013fc660677b2e170efdcc959fa7c6",
    "eey": "8a0ee4e5acbd4b2f61a4fb947c1730ab3adcc9dc50b195981d99391d29928e8a",
    "fem": "3fcff629412b57233589cdb058f730594a62c4f3a75c20de14afe06621ef45e2",
    "gka": "dc82e7967cbd5eddbed33074b0699128dbd4482b41711916d58103707e38c67f",
    "jmk": "3a37c0e1dfc91e734fdbc88b562d9e2ebca621772402cdc693bbc9b09b211d73",
    "ksp": "8029cafce8296f9bed3022c44ef1e7953332b6bf6943c14b929f468122532717",
    "ljm": "b23993765cbf2b9e7bbc3c85b6c56eaf292ac81ee4bb887b638a24d104f921a0",
    "lnh": "4faf34d71aa7112813252fb20c5433e2fdd9a9de55a00701ffcbf05f24a5991a",
    "rms": "c6dc11235629c58441c071a7ba8a2d067903dfefbaabc4056d87da35b72ecda4",
    "rxr": "1fa4271c393e5998d200e56c102ff46fcfea169aaa2148ad9e9469616fbfdd9b",
    "slp": "54345ed55e45c23d419e9a823eef427f1cc93c83a710735ec667d068c916abf1",
    "slt": "7c173297916acf3cc7fcab2713be4c60b27312316765a90934651d367226b4ea",
}
_LINE = re.compile(r'\(\s*(\S+)\s+"(.*)"\s*\)')


def _folder(speaker: str) -> str:
    return f"ARCTIC/cmu_us_{speaker}_arctic"


_INFO = DatasetInfo(
    name="cmuarctic",
    task="speech-synthesis",
    splits=tuple(_SPEAKERS),
    files=tuple(
        archive(
            f"{_BASE}/cmu_us_{speaker}_arctic.tar.bz2",
            digest,
            _folder(speaker),
            into="ARCTIC",
            splits=[speaker],
            path=f"{_folder(speaker)}.tar.bz2",
        )
        for speaker, digest in _SPEAKERS.items()
    ),
    schema=fields("transcript", "utterance_id"),
    license="BSD-like, see the archive's COPYING",
    citation="@inproceedings{Kominek03cmuarctic, author={Kominek, John and Black, Alan W}, title={The CMU Arctic "
    "speech "
    "databases}, booktitle={Fifth ISCA workshop on speech synthesis}, year={2004}}",
    homepage="http://www.festvox.org/cmu_arctic/",
    description="About 1,150 phonetically balanced sentences for each of 18 speakers, 16 kHz.",
)


@register_dataset(info=_INFO)
class CMUARCTIC(Listed):
    """About 1,150 phonetically balanced English sentences, read by one of 18 speakers; 16 kHz.

    Args:
        root: folder that holds, or shall hold, `folder_in_archive`.
        url: the speaker, such as "aew", or the address of an archive.
        folder_in_archive: folder below the root that the speakers' folders are in.
        download: fetch the speaker's archive where the folder is not in place.

    Items are (waveform, sample rate, transcript, utterance id such as "a0001").

    Raises:
        DatasetMissingError: the speaker's folder is missing, and `download` is False.
    """

    split_argument = "url"

    def __init__(
        self, root: str | Path, url: str = "aew", folder_in_archive: str = "ARCTIC", download: bool = False
    ) -> None:
        address = f"{_BASE}/cmu_us_{url}_arctic.tar.bz2" if url in _SPEAKERS else url
        folder = f"{folder_in_archive}/{PurePosixPath(address).name.split('.')[0]}"
        found = from_elsewhere(_INFO, root, address, folder, download=download, into=folder_in_archive)
        self._path = found / folder
        text = (self._path / "etc" / "txt.done.data").read_text(encoding="utf-8")
        self._walker = [match.groups() for line in text.splitlines() if (match := _LINE.fullmatch(line.strip()))]

    def _entry(self, n: int) -> tuple[Path, tuple[Any, ...]]:
        name, transcript = self._walker[n]
        return self._path / "wav" / f"{name}.wav", (transcript, name.split("_")[1])

    def __len__(self) -> int:
        return len(self._walker)
