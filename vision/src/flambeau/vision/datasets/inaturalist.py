"""iNaturalist: species of plants and animals.

References:
    Van Horn et al. 2018, The iNaturalist Species Classification and Detection Dataset. arXiv:1707.06642
    Van Horn et al. 2021, Benchmarking Representation Learning for Natural World Image Collections. arXiv:2103.16483
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.core.errors import FlambeauError
from flambeau.vision.datasets._pictures import index_of, picture_and_label
from flambeau.vision.datasets.folder import default_loader, opened
from flambeau.vision.datasets.utils import list_dir, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["INaturalist"]

_URL = "https://ml-inat-competition-datasets.s3.amazonaws.com/"
# version -> archive, the folder in it, MD5, items
_VERSIONS = {
    "2017": ("2017/train_val_images.tar.gz", "train_val_images", "7c784ea5e424efaec655bd392f87301f", 675_170),
    "2018": ("2018/train_val2018.tar.gz", "train_val2018", "b1c6952ce38f31868cc50ea72d066cc3", 461_939),
    "2019": ("2019/train_val2019.tar.gz", "train_val2019", "c60a6e2962c9b8ccbd458d12c8582644", 268_243),
    "2021_train": ("2021/train.tar.gz", "train", "e0526d53c7f7b2e3167b2b43bb2690ed", 2_686_843),
    "2021_train_mini": ("2021/train_mini.tar.gz", "train_mini", "db6ed8330e634445efc8fec83ae81442", 500_000),
    "2021_valid": ("2021/val.tar.gz", "val", "f6f6e0e242e3d4c9569ba56400938afc", 100_000),
}
_RANKS = ("kingdom", "phylum", "class", "order", "family", "genus")
_INFO = DatasetInfo(
    name="inaturalist",
    task="image-classification",
    sizes={version: items for version, (*_, items) in _VERSIONS.items()},
    files=tuple(
        DatasetFile(
            url=_URL + archive,
            path=f"{version}.tgz",
            md5=md5,
            extract=version,
            contents=(Content(f"{version}/{folder}"),),
            splits=(version,),
        )
        for version, (archive, folder, md5, _) in _VERSIONS.items()
    ),
    schema=picture_and_label(10_000),
    license="non-commercial research use; each picture has its own licence",
    citation="@inproceedings{vanhorn2021benchmarking, author={Van Horn, Grant and others}, title={Benchmarking "
    "Representation Learning for Natural World Image Collections}, booktitle={CVPR}, year={2021}}",
    homepage="https://github.com/visipedia/inat_comp",
    description="Photographs of up to 10,000 species of plants and animals.",
)


class _LayoutError(FlambeauError, RuntimeError):
    """A folder whose name is not what the version's layout says."""


@register_dataset(info=_INFO)
class INaturalist(VisionDataset):
    """Photographs of plants and animals: 5,089 species (2017), 8,142 (2018), 1,010 (2019) or 10,000 (2021).

    Args:
        root: folder that holds, or shall hold, a folder named by the version.
        version: "2017", "2018", "2019", "2021_train", "2021_train_mini" or "2021_valid".
        target_type: "full" (species), for 2021 also "kingdom", "phylum", "class", "order", "family" and "genus", for
            earlier versions "super" (such as Aves), or a list of them.
        transform: called with the picture.
        target_transform: called with the target.
        download: fetch the version's archive where its files are not in place.
        loader: opens a picture by path; RGB when None.

    Attributes:
        all_categories: name of every species.
        categories_index: target type -> name -> index.
        categories_map: target type -> index, of every species.
        index: (species, file name) of every item.

    Items are (PIL image in RGB, target); several target types make a tuple, none makes None.

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
        ValueError: there is no such version, or it has no such target type.
    """

    def __init__(
        self,
        root: str | Path,
        version: str = "2021_train",
        target_type: list[str] | str = "full",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        loader: Callable[[str | Path], Any] | None = None,
    ) -> None:
        self.version = verify_str_arg(version, "version", _VERSIONS)
        super().__init__(root, transform=transform, target_transform=target_transform)
        known = ("full", *_RANKS) if version.startswith("2021") else ("full", "super")
        wanted = [target_type] if isinstance(target_type, str) else target_type
        self.target_type = [verify_str_arg(kind, "target_type", known) for kind in wanted]
        self.loader = loader or default_loader
        self._folder = _unpacked(version, root, download)
        self.all_categories: list[str] = []
        self.categories_index: dict[str, dict[str, int]] = {}
        self.categories_map: list[dict[str, int]] = []
        if version.startswith("2021"):
            self._read_ranks()
        else:
            self._read_supers()
        self.index = [
            (species, path.name)
            for species, name in enumerate(self.all_categories)
            if name
            for path in sorted((self._folder / name).iterdir())
        ]

    def _read_ranks(self) -> None:
        """Folders of 2021: 00000_Animalia_Annelida_Clitellata_Haplotaxida_Lumbricidae_Lumbricus_terrestris."""
        self.all_categories = list_dir(self._folder)
        self.categories_index = {rank: {} for rank in _RANKS}
        for number, name in enumerate(self.all_categories):
            parts = name.split("_")
            if len(parts) != 8 or parts[0] != f"{number:05d}":
                raise _LayoutError(
                    f"{self._folder / name}: expected {number:05d}, six ranks and a species, joined by _."
                )
            known = self.categories_index
            ranks = zip(_RANKS, parts[1:7], strict=True)
            self.categories_map.append({rank: known[rank].setdefault(value, len(known[rank])) for rank, value in ranks})

    def _read_supers(self) -> None:
        """Folders before 2021: Aves/Accipiter badius, and Aves/4215 with the number of the species."""
        supers = index_of(list_dir(self._folder))
        self.categories_index = {"super": supers}
        found = [(name, species) for name in supers for species in list_dir(self._folder / name)]
        by_number: dict[int, tuple[str, str]] = {}
        for position, (name, species) in enumerate(found):
            if self.version != "2017" and not species.isdigit():
                raise _LayoutError(f"{self._folder / name / species}: expected the number of a species.")
            number = position if self.version == "2017" else int(species)
            if number in by_number:
                raise _LayoutError(f"{self._folder / name / species}: species {number} is there twice.")
            by_number[number] = (name, species)
        for number in range(max(by_number, default=-1) + 1):
            name, species = by_number.get(number, ("", ""))
            self.all_categories.append(f"{name}/{species}" if name else "")
            self.categories_map.append({"super": supers[name]} if name else {})

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, target) number `index`, transformed."""
        species, file = self.index[index]
        path = str(self._folder / self.all_categories[species] / file)
        image = opened(path, self.loader, transformed=self._transforms_pictures)
        targets = tuple(species if kind == "full" else self.categories_map[species][kind] for kind in self.target_type)
        return self._transformed(image, targets if len(targets) > 1 else targets[0] if targets else None)

    def __len__(self) -> int:
        return len(self.index)

    def category_name(self, category_type: str, category_id: int) -> str:
        """The name behind a target.

        Args:
            category_type: a target type, such as "full" or "genus".
            category_id: the index.

        Raises:
            ValueError: there is no such type, or index.
        """
        if category_type == "full":
            if not 0 <= category_id < len(self.all_categories):
                raise ValueError(f"species is {category_id}, expected 0 to {len(self.all_categories) - 1}.")
            return self.all_categories[category_id]
        names = self.categories_index[verify_str_arg(category_type, "category_type", self.categories_index)]
        for name, number in names.items():
            if number == category_id:
                return name
        raise ValueError(f"{category_type} is {category_id}, expected 0 to {len(names) - 1}.")

    def download(self) -> None:
        """Fetch and unpack the version's archive where its files are not in place."""
        _unpacked(self.version, str(self.root), True)

    def extra_repr(self) -> str:
        """Version and target types."""
        return f"Version: {self.version}\nTarget type: {self.target_type}"


def _unpacked(version: str, root: str | Path, download: bool) -> Path:
    """The folder of the version's categories: as upstream leaves it, or inside the folder that the archive holds."""
    folder = Path(root).expanduser() / version
    inner = folder / _VERSIONS[version][1]
    if not inner.is_dir() and folder.is_dir() and any(folder.glob("*/*")):
        return folder
    prepare_dataset(_INFO, root, download=download, splits=(version,))
    return inner
