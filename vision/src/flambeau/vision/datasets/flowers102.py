"""Oxford 102 Flowers.

References:
    Nilsback and Zisserman 2008, Automated flower classification over a large number of classes. ICVGIP.
    doi:10.1109/ICVGIP.2008.47
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import PictureDataset, picture_and_label
from flambeau.vision.datasets._readers import load_mat
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["Flowers102"]

_URL = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
_FOLDER = "flowers-102"
_INFO = DatasetInfo(
    name="flowers102",
    task="image-classification",
    sizes={"train": 1_020, "val": 1_020, "test": 6_149},
    files=(
        DatasetFile(
            url=_URL + "102flowers.tgz",
            path=f"{_FOLDER}/102flowers.tgz",
            md5="52808999861908f626f3c1f4e79d11fa",
            extract=True,
            contents=(Content(f"{_FOLDER}/jpg"),),
        ),
        DatasetFile(
            url=_URL + "imagelabels.mat", path=f"{_FOLDER}/imagelabels.mat", md5="e0620be6f572b9609742df49c70aed4d"
        ),
        DatasetFile(url=_URL + "setid.mat", path=f"{_FOLDER}/setid.mat", md5="a5357ecc9cb78c4bef273ce3793fc85c"),
    ),
    schema=picture_and_label(102),
    license="unknown; cite the paper",
    citation="@inproceedings{nilsback2008automated, author={Nilsback, Maria-Elena and Zisserman, Andrew}, "
    "title={Automated Flower Classification over a Large Number of Classes}, booktitle={ICVGIP}, year={2008}}",
    homepage="https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
    description="Photographs of 102 kinds of flowers common in the United Kingdom.",
)
_VARIABLES = {"train": "trnid", "val": "valid", "test": "tstid"}
_NAMES = """
pink primrose; hard-leaved pocket orchid; canterbury bells; sweet pea; english marigold; tiger lily; moon
orchid; bird of paradise; monkshood; globe thistle; snapdragon; colt's foot; king protea; spear thistle;
yellow iris; globe-flower; purple coneflower; peruvian lily; balloon flower; giant white arum lily; fire lily;
pincushion flower; fritillary; red ginger; grape hyacinth; corn poppy; prince of wales feathers; stemless
gentian; artichoke; sweet william; carnation; garden phlox; love in the mist; mexican aster; alpine sea holly;
ruby-lipped cattleya; cape flower; great masterwort; siam tulip; lenten rose; barbeton daisy; daffodil; sword
lily; poinsettia; bolero deep blue; wallflower; marigold; buttercup; oxeye daisy; common dandelion; petunia;
wild pansy; primula; sunflower; pelargonium; bishop of llandaff; gaura; geranium; orange dahlia; pink-yellow
dahlia?; cautleya spicata; japanese anemone; black-eyed susan; silverbush; californian poppy; osteospermum;
spring crocus; bearded iris; windflower; tree poppy; gazania; azalea; water lily; rose; thorn apple; morning
glory; passion flower; lotus; toad lily; anthurium; frangipani; clematis; hibiscus; columbine; desert-rose;
tree mallow; magnolia; cyclamen; watercress; canna lily; hippeastrum; bee balm; ball moss; foxglove;
bougainvillea; camellia; mallow; mexican petunia; bromelia; blanket flower; trumpet creeper; blackberry lily
"""


@register_dataset(info=_INFO)
class Flowers102(PictureDataset):
    """8,189 photographs of 102 kinds of flowers. Needs SciPy.

    Args:
        root: folder that holds, or shall hold, `flowers-102`.
        split: "train", "val" or "test".
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archive (345 MB) and the two tables where they are not in place.
        loader: opens a picture by path.

    Attributes:
        classes: names such as "pink primrose".

    Items are (PIL image in RGB, class index).

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
        MissingReaderError: SciPy is not installed.
    """

    classes: ClassVar[list[str]] = " ".join(_NAMES.split()).split("; ")

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        loader: Callable[[str | Path], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", _VARIABLES)
        folder = prepare_dataset(_INFO, root, download=download) / _FOLDER
        numbers = np.atleast_1d(load_mat(folder / "setid.mat", "Flowers102")[_VARIABLES[split]])
        labels = np.atleast_1d(load_mat(folder / "imagelabels.mat", "Flowers102")["labels"])
        # Pictures and classes count from one in the files.
        samples = [(folder / "jpg" / f"image_{number:05d}.jpg", int(labels[number - 1]) - 1) for number in numbers]
        super().__init__(root, samples, transform, target_transform, loader)

    def download(self) -> None:
        """Fetch what is not in place."""
        prepare_dataset(_INFO, self.root, download=True)

    def extra_repr(self) -> str:
        """The split."""
        return f"split={self._split}"
