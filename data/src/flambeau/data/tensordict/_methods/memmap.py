"""Memory-mapped storage: memmap, save, load, consolidate and their relatives."""

from __future__ import annotations

import copyreg
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._layout.keys import key_path
from flambeau.data.tensordict._nestedkey import NestedKey
from flambeau.data.tensordict._tensorcollection import CollectionMethods

if TYPE_CHECKING:
    from flambeau.data.tensordict.memmap import MemoryMappedTensor
    from flambeau.data.tensordict.memmap.future import TensorDictFuture

# Threads, zip files and records take long to import; `memmap` is imported where it is used.


class MemmapMethods(CollectionMethods):
    """Tensors in files."""

    _saved: Any = None  # a memmap.saved.Saved, of a tensordict whose tensors lie in files or shared memory

    # --- saving

    def memmap(
        self,
        prefix: str | Path | None = None,
        copy_existing: bool = False,
        *,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        existsok: bool = True,
        robust_key: bool | None = True,
        archive: bool | None = None,
        compression: str | int | None = None,
        fsync: bool = False,
    ) -> Self | TensorDictFuture:
        """A copy whose tensors lie in files: every leaf in its own, readable alone and by several processes at once.

        A killed writer leaves the previous version or the new one, never a mixture that loads. Values that are no
        tensors are written as JSON where that gives them back as they are, and pickled otherwise.

        Args:
            prefix: the folder, or the `.tdz` archive; None puts the tensors into shared memory without a name.
            copy_existing: copy tensors that lie in other files already, which is an error otherwise.
            num_threads: threads that write; the bytes are shared out among them.
            return_early: return a `TensorDictFuture` at once, and write in the background. Needs `num_threads` > 0.
            share_non_tensor: accepted for compatibility; values are written to the folder in any case.
            existsok: replace files that exist.
            robust_key: percent-encode keys that no file name can be; False raises for them.
            archive: write one zip file, by default where `prefix` ends with ".tdz".
            compression: of an archive: "stored" (the default, and the only one that can be mapped), "deflate", "bzip2"
                or "lzma".
            fsync: return when the data would survive a power failure.

        Returns:
            A locked tensordict of `MemoryMappedTensor`s; for an archive an unlocked one of plain tensors over one map.

        Raises:
            RuntimeError: a tensor lies in another file; or a file exists and `existsok` is off.
            StorageFullError: the disk is full. What was saved at `prefix` before is as it was.
        """
        from flambeau.data.tensordict.memmap import saved

        options = saved.SaveOptions(copy_existing, num_threads, existsok, robust_key is not False, fsync)
        if archive or (archive is None and prefix is not None and str(prefix).endswith(".tdz")):
            return saved.save_archive(self, prefix, options, compression)
        if compression is not None:
            raise ValueError("compression is for archives; pass archive=True or a prefix that ends with '.tdz'.")
        return saved.save(self, prefix, options, return_early=return_early)

    def memmap_(
        self,
        prefix: str | Path | None = None,
        copy_existing: bool = False,
        *,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        existsok: bool = True,
        robust_key: bool | None = True,
        fsync: bool = False,
    ) -> Self | TensorDictFuture:
        """As `memmap`, in place: the tensors of this tensordict are exchanged for mapped ones, and it is locked."""
        from flambeau.data.tensordict.memmap import saved

        options = saved.SaveOptions(copy_existing, num_threads, existsok, robust_key is not False, fsync)
        return saved.save(self, prefix, options, return_early=return_early, inplace=True)

    def memmap_like(
        self,
        prefix: str | Path | None = None,
        copy_existing: bool = False,
        *,
        existsok: bool = True,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        robust_key: bool | None = True,
        archive: bool | None = None,
        fsync: bool = False,
    ) -> Self | TensorDictFuture:
        """As `memmap`, with files full of zeros in place of the tensors' content, which is not read.

        The room is taken at once, so that writing to the tensors cannot meet a full disk.

        Raises:
            ValueError: `archive`: writes to tensors of an archive do not reach it.
        """
        from flambeau.data.tensordict.memmap import saved

        if archive:
            raise ValueError("an archive cannot be filled later; use a folder, and pack_memmap when it is full.")
        options = saved.SaveOptions(True, num_threads, existsok, robust_key is not False, fsync, like=True)
        return saved.save(self, prefix, options, return_early=return_early)

    def save(
        self,
        prefix: str | Path | None = None,
        copy_existing: bool = False,
        *,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        robust_key: bool | None = True,
        archive: bool | None = None,
        compression: str | int | None = None,
        fsync: bool = False,
    ) -> Self | TensorDictFuture:
        """Save to a folder or an archive; another name of `memmap`."""
        return self.memmap(
            prefix,
            copy_existing,
            num_threads=num_threads,
            return_early=return_early,
            share_non_tensor=share_non_tensor,
            robust_key=robust_key,
            archive=archive,
            compression=compression,
            fsync=fsync,
        )

    def dumps(
        self,
        prefix: str | Path | None = None,
        copy_existing: bool = False,
        *,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        robust_key: bool | None = True,
        archive: bool | None = None,
        compression: str | int | None = None,
        fsync: bool = False,
    ) -> Self | TensorDictFuture:
        """Save to a folder or an archive; another name of `memmap`."""
        return self.save(
            prefix,
            copy_existing,
            num_threads=num_threads,
            return_early=return_early,
            share_non_tensor=share_non_tensor,
            robust_key=robust_key,
            archive=archive,
            compression=compression,
            fsync=fsync,
        )

    # --- loading

    @classmethod
    def load_memmap(
        cls,
        prefix: str | Path,
        device: torch.device | str | None = None,
        non_blocking: bool = False,
        *,
        out: Any = None,
        robust_key: bool | None = True,
        subpath: NestedKey | None = None,
        mode: str | None = None,
        num_threads: int = 0,
        allow_pickle: bool | None = None,
    ) -> Any:
        """Map a saved tensordict; nothing is read before it is used.

        Every file's size is checked against its shape and dtype.

        Values that were pickled are loaded if their types are known to be harmless (numbers, containers, dates, arrays,
        tensors, ...), and refused otherwise: a pickle can run any code. The same holds for tensorclasses, which are not
        imported on a file's word.

        Args:
            prefix: a folder or an archive.
            device: move the tensors there; "meta" opens no file.
            non_blocking: of the copies to a device.
            out: a tensordict whose entries are replaced by those loaded; others are removed.
            robust_key: look for percent-encoded names first; False for raw ones first.
            subpath: load only this nested tensordict: a key, or names with slashes between.
            mode: how files are mapped. Of a folder: "r+" (default) writes to the files, "r" raises on in-place writes,
                "c" keeps them to this process; files without write permission are mapped as with "r". Of an archive:
                "r" and "c" (default) keep writes to this process, "r+" writes to the file.
            num_threads: threads that move tensors to a device.
            allow_pickle: True trusts the files; False refuses every pickle.

        Raises:
            MissingLayoutError: nothing was saved there, or its writer did not finish (a FileNotFoundError).
            TruncatedFileError: a file is too short; the message names it.
            UnsafePickleError: a value would import something that is not known to be harmless.
        """
        from flambeau.data.tensordict.memmap import saved

        options = saved.LoadOptions(device, non_blocking, robust_key is not False, mode, num_threads, allow_pickle)
        return saved.load(prefix, options, subpath=subpath, out=out)

    @classmethod
    def load(cls, prefix: str | Path, *args: Any, **kwargs: Any) -> Any:
        """Load what was saved; another name of `load_memmap`."""
        return cls.load_memmap(prefix, *args, **kwargs)

    def load_memmap_(
        self, prefix: str | Path, robust_key: bool | None = True, *, allow_pickle: bool | None = None
    ) -> Self:
        """Replace the entries by those saved at `prefix`; see `load_memmap`."""
        return type(self).load_memmap(prefix, out=self, robust_key=robust_key, allow_pickle=allow_pickle)

    def load_(self, prefix: str | Path, *args: Any, **kwargs: Any) -> Self:
        """Replace the entries by those saved at `prefix`; another name of `load_memmap_`."""
        return self.load_memmap_(prefix, *args, **kwargs)

    def memmap_refresh_(self, *, allow_pickle: bool | None = None) -> Self:
        """Take over what other processes added to the folder since: entries, and new versions of them.

        Raises:
            RuntimeError: this tensordict was not saved to a folder.
        """
        from flambeau.data.tensordict.memmap import saved

        return saved.refresh(self, allow_pickle)

    @property
    def saved_path(self) -> Path:
        """The folder that the tensors lie in.

        Raises:
            AttributeError: they lie in none.
        """
        if self._saved is None or self._saved.prefix is None:
            raise AttributeError("the tensordict is not saved to a folder; use memmap(prefix) or load_memmap(prefix).")
        return Path(self._saved.prefix)

    # --- new entries of a saved tensordict

    def make_memmap(
        self,
        key: NestedKey,
        shape: torch.Size | Tensor,
        *,
        dtype: torch.dtype | None = None,
        robust_key: bool | None = True,
    ) -> MemoryMappedTensor:
        """A new entry of zeros in a saved tensordict, in a file of its own, although it is locked.

        Args:
            key: of the entry; an existing one is replaced.
            shape: begins with the batch size; an int64 tensor of sizes makes a nested tensor.
            dtype: by default `torch.get_default_dtype()`.
            robust_key: percent-encode the key.

        Raises:
            RuntimeError: the tensordict is not memory-mapped.
        """
        from flambeau.data.tensordict.memmap import saved

        dtype = dtype or torch.get_default_dtype()
        return saved.add_empty(self, key_path(key), shape, dtype, robust_key is not False)

    def make_memmap_from_tensor(
        self, key: NestedKey, tensor: Tensor, *, copy_data: bool = True, robust_key: bool | None = True
    ) -> MemoryMappedTensor:
        """A new entry with a tensor's content in a saved tensordict, although it is locked.

        Args:
            key: of the entry; an existing one is replaced.
            tensor: whose shape begins with the batch size.
            copy_data: False leaves zeros.
            robust_key: percent-encode the key.

        Raises:
            RuntimeError: the tensordict is not memory-mapped.
        """
        from flambeau.data.tensordict.memmap import saved

        return saved.add_tensor(self, key_path(key), tensor, copy_data, robust_key is not False)

    def make_memmap_from_storage(
        self,
        key: NestedKey,
        storage: torch.UntypedStorage,
        shape: torch.Size | Tensor,
        *,
        dtype: torch.dtype | None = None,
        robust_key: bool | None = True,
    ) -> MemoryMappedTensor:
        """A new entry over a storage that maps the entry's file already, although the tensordict is locked.

        What a storage holds that maps no file is written to the entry's file.

        Args:
            key: of the entry; an existing one is replaced.
            storage: the mapped memory.
            shape: begins with the batch size.
            dtype: by default `torch.get_default_dtype()`.
            robust_key: percent-encode the key.

        Raises:
            RuntimeError: the tensordict is not memory-mapped; or the storage maps another file.
        """
        from flambeau.data.tensordict.memmap import saved

        dtype = dtype or torch.get_default_dtype()
        return saved.add_storage(self, key_path(key), storage, shape, dtype, robust_key is not False)

    # --- one storage for all tensors

    def consolidate(
        self,
        filename: str | Path | None = None,
        *,
        num_threads: int = 0,
        device: torch.device | str | None = None,
        non_blocking: bool = False,
        inplace: bool = False,
        return_early: bool = False,
        use_buffer: bool = False,
        share_memory: bool = False,
        pin_memory: bool = False,
        set_on_tensor: bool = False,
        metadata: bool = False,
    ) -> Any:
        """A copy whose tensors are views of one storage: one to send, one to copy to a device, one to map.

        Args:
            filename: a file to hold it, with the structure at its end; see `from_consolidated`.
            num_threads: threads that copy.
            device: of the storage.
            non_blocking: of the copies.
            inplace: exchange the tensors of this tensordict.
            return_early: return a `TensorDictFuture` and copy in the background. Needs `num_threads` > 0.
            use_buffer: accepted for compatibility; a file is always written from memory.
            share_memory: put the storage into shared memory.
            pin_memory: put the storage into page-locked memory.
            set_on_tensor: accepted for compatibility.
            metadata: keep the structure beside the storage, which a file always has.

        Returns:
            A locked tensordict. One that is consolidated is returned as it is.

        Raises:
            RuntimeError: `inplace`, and this tensordict is locked.

        Example:
            >>> td = TensorDict(a=torch.zeros(3), b=torch.ones(2)).consolidate()
            >>> td["a"].untyped_storage().data_ptr() == td["b"].untyped_storage().data_ptr()
            True
        """
        from flambeau.data.tensordict.memmap import consolidated

        return consolidated.consolidate(
            self,
            None if filename is None else os.fspath(filename),
            consolidated.Options(
                num_threads=num_threads,
                device=None if device is None else torch.device(device),
                non_blocking=non_blocking,
                share_memory=share_memory,
                pin_memory=pin_memory,
                metadata=metadata,
            ),
            inplace=inplace,
            return_early=return_early,
        )

    @classmethod
    def from_consolidated(cls, filename: str | Path) -> Any:
        """Map a file that `consolidate(filename)` wrote; locked where what was written was.

        Pickled values are treated as `load_memmap` does; `memmap.set_allow_pickle` changes that.

        Raises:
            LayoutError: it is none, or it is cut short.
        """
        from flambeau.data.tensordict.memmap import consolidated

        return consolidated.from_consolidated(os.fspath(filename))

    def is_consolidated(self) -> bool:
        """Whether all tensors are views of one storage, laid out by `consolidate`."""
        if self._consolidated is None or self.is_locked:
            return self._consolidated is not None
        from flambeau.data.tensordict.memmap import consolidated

        return consolidated.still_consolidated(self)

    _consolidated: Any = None

    def _moved_whole(self, device: Any, non_blocking: bool | None) -> Any:
        """A consolidated tensordict on another device, by one copy."""
        from flambeau.data.tensordict.memmap import consolidated

        return consolidated.moved(self, device, non_blocking)

    def _check_storage(self) -> None:
        """Locked, a tensordict is taken for consolidated as long as it stays so: see that it still is."""
        if self._consolidated is not None and not self.is_consolidated():
            self._consolidated = None

    def _forget_storage(self) -> None:
        """Unlocked, a tensordict may get other tensors: what is known of their memory no longer holds."""
        if self._consolidated is not None or self._is_memmap:
            self._consolidated, self._is_memmap = None, False

    # --- pickling

    def __reduce__(self) -> Any:
        """One storage for all tensors where the tensordict is consolidated; otherwise its attributes."""
        if self._consolidated is not None and self.is_consolidated():
            from flambeau.data.tensordict.memmap import consolidated

            known = self._consolidated
            plain = type(self) is classes.TensorDict or not isinstance(self, classes.TensorDict)
            derived = () if plain else (None, type(self), self.is_locked)
            return consolidated.adopt, (known["metadata"], known["storage"], *derived)
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        # References to the parents that locked this one are weak, and mean nothing to another process.
        # What is consolidated is pickled as one storage, see `__reduce__`.
        passing = ("_lock_parents", "_cache", "_last_op", "_entered", "_consolidated")
        return {name: value for name, value in self.__dict__.items() if name not in passing}

    def __setstate__(self, state: dict[str, Any]) -> None:
        locked = state.pop("_is_locked", False)
        self.__dict__.update(state)
        if locked:
            self._lock_below(None)
