"""What the datasets of images have in common: a root folder and transforms of image and target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from torch.utils.data import Dataset

__all__ = ["StandardTransform", "VisionDataset"]

T_co = TypeVar("T_co", covariant=True)

_REPR_INDENT = 4


class VisionDataset(Dataset[Any]):
    """Base of the datasets here: subclasses define `__getitem__` and `__len__`.

    Args:
        root: folder of the data; `~` is expanded. None for datasets without files.
        transforms: called with (image, target), returns both. It excludes the other two.
        transform: called with the image alone.
        target_transform: called with the target alone.

    Raises:
        ValueError: `transforms` is given together with one of the others.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        transforms: Callable[..., Any] | None = None,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
    ) -> None:
        # Upstream: a str becomes a str, a Path stays as it is; None is what FakeData passes.
        self.root = str(Path(root).expanduser()) if isinstance(root, str) else root
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError(
                "`transforms` gets image and target together, `transform` and `target_transform` get one each; pass "
                "either the first or the others."
            )
        self.transform = transform
        self.target_transform = target_transform
        if transforms is None and (transform is not None or target_transform is not None):
            transforms = StandardTransform(transform, target_transform)
        self.transforms = transforms

    def __getitem__(self, index: int) -> Any:
        """Item `index`, transformed."""
        raise NotImplementedError(f"{type(self).__name__} has to define __getitem__(index).")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has to define __len__().")

    # Of a dataset that another one asks for its items, whether that has a transform for pictures.
    _stands_behind_a_transform = False

    @property
    def _transforms_pictures(self) -> bool:
        """Whether a transform gets each picture next, so that it need not be decoded before."""
        of_both = self.transforms is not None and self.target_transform is None
        return self._stands_behind_a_transform or of_both or self.transform is not None

    def _transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        """Image and target through `transforms`, which stands for the other two as well."""
        return (image, target) if self.transforms is None else self.transforms(image, target)

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        if self.transforms is not None:
            body.append(repr(self.transforms))  # Upstream: only its first line is indented.
        return "\n".join([f"Dataset {type(self).__name__}", *(" " * _REPR_INDENT + line for line in body)])

    def extra_repr(self) -> str:
        """Further lines for `repr`."""
        return ""


class StandardTransform:
    """Two functions as one: `transform` for the image, `target_transform` for the target.

    Args:
        transform: called with the image; None leaves it.
        target_transform: called with the target; None leaves it.
    """

    def __init__(
        self, transform: Callable[..., Any] | None = None, target_transform: Callable[..., Any] | None = None
    ) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        """Both transformed."""
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    def __repr__(self) -> str:
        lines = ["StandardTransform"]
        for name, transform in (("Transform: ", self.transform), ("Target transform: ", self.target_transform)):
            if transform is not None:
                first, *more = repr(transform).splitlines()
                lines += [f"{name}{first}", *(" " * len(name) + line for line in more)]
        return "\n".join(lines)
