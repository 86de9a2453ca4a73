"""Generated from the register of methods by `python -m flambeau.data.datapipes.stubs`; do not edit."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeVar

from torch.utils.data import Dataset, IterableDataset

from flambeau.data.datapipes._methods import functional_datapipe as functional_datapipe
from flambeau.data.datapipes.chunk import DataChunk as DataChunk

T_co = TypeVar("T_co", covariant=True)

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"]

class _Registered:
    functions: ClassVar[dict[str, Callable[..., Any]]]
    reduce_ex_hook: ClassVar[Callable[..., Any] | None]
    getstate_hook: ClassVar[Callable[..., Any] | None]
    str_hook: ClassVar[Callable[..., str] | None]
    repr_hook: ClassVar[Callable[..., str] | None]
    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None: ...
    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type, enable_df_api_tracing: bool = False
    ) -> None: ...
    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None: ...
    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None: ...
    def _hook(self, name: str) -> Callable[..., Any] | None: ...
    def _configuration(self) -> dict[str, Any]: ...

class IterDataPipe(_Registered, IterableDataset[T_co]):
    state_fields: ClassVar[tuple[str, ...] | None]
    transient: ClassVar[tuple[str, ...]]
    is_dataframe_pipe: ClassVar[bool]
    _replayable: ClassVar[bool]
    _live: object | None
    _saved: dict[str, Any] | None
    _begun: int
    _yielded: int
    _skip: int
    _resuming: bool
    _touched: bool
    def __iter__(self) -> Iterator[T_co]: ...
    def reset(self) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...
    def get_state(self) -> dict[str, Any] | None: ...
    def set_state(self, state: dict[str, Any]) -> None: ...
    def get_origin(self, begun: bool) -> dict[str, Any] | None: ...
    def load_origin(self, origin: dict[str, Any]) -> None: ...
    def hold(self) -> None: ...
    def release(self) -> None: ...
    def _has_begun(self, readers: list[Any]) -> bool: ...
    def _dataframes_as_tuples(self) -> IterDataPipe[Any]: ...
    def _dataframes_concat(self, batch: int = 3) -> IterDataPipe[Any]: ...
    def _dataframes_filter(self, filter_fn: Callable[[Any], bool]) -> IterDataPipe[Any]: ...
    def _dataframes_per_row(self) -> IterDataPipe[Any]: ...
    def _dataframes_shuffle(self) -> IterDataPipe[Any]: ...
    def _to_dataframes_pipe(self, dataframe_size: int = 10, columns: list[str] | None = None) -> IterDataPipe[Any]: ...
    def add_index(self, index_name: str = "index") -> IterDataPipe[Any]: ...
    def async_map_batches(
        self,
        async_fn: Callable[..., Any],
        batch_size: int,
        input_col: Any = None,
        output_col: Any = None,
        max_concurrency: int = 32,
        flatten: bool = True,
    ) -> IterDataPipe[Any]: ...
    def batch(
        self,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[..., Any] = ...,
    ) -> IterDataPipe[Any]: ...
    def bucketbatch(
        self,
        batch_size: int,
        drop_last: bool = False,
        batch_num: int = 100,
        bucket_num: int = 1,
        sort_key: Callable[[list[Any]], list[Any]] | None = None,
        use_in_batch_shuffle: bool = True,
    ) -> IterDataPipe[Any]: ...
    def check_hash(
        self,
        hash_dict: dict[str, str],
        hash_type: str = "sha256",
        rewind: bool = True,
    ) -> IterDataPipe[Any]: ...
    def collate(
        self,
        conversion: Callable[..., Any] | dict[Any, Callable[..., Any]] | None = ...,
        collate_fn: Callable[..., Any] | None = None,
    ) -> IterDataPipe[Any]: ...
    def concat(self, *datapipes: IterDataPipe[T_co]) -> IterDataPipe[Any]: ...
    def cycle(self, count: int | None = None) -> IterDataPipe[Any]: ...
    def dataframe(
        self,
        dataframe_size: int = 1000,
        dtype: Any = None,
        dtype_generator: Callable[[], Any] | None = None,
        columns: list[str] | None = None,
        device: str = "",
    ) -> IterDataPipe[Any]: ...
    def decompress(self, file_type: str | Any | None = None) -> IterDataPipe[Any]: ...
    def demux(
        self,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> list[IterDataPipe[Any]]: ...
    def drop(self, indices: Hashable | list[Hashable]) -> IterDataPipe[Any]: ...
    def end_caching(
        self,
        mode: str = "wb",
        filepath_fn: Callable[..., Any] | None = None,
        *,
        same_filepath_fn: bool = False,
        skip_read: bool = False,
        timeout: float = 300,
    ) -> IterDataPipe[Any]: ...
    def enumerate(self, starting_index: int = 0) -> IterDataPipe[Any]: ...
    def extract(self, file_type: str | Any | None = None) -> IterDataPipe[Any]: ...
    def filter(self, filter_fn: Callable[..., Any], input_col: Any = None) -> IterDataPipe[Any]: ...
    def flatmap(self, fn: Callable[..., Any] | None = None, input_col: Any = None) -> IterDataPipe[Any]: ...
    def flatten(self, indices: Hashable | list[Hashable] | None = None) -> IterDataPipe[Any]: ...
    def fork(
        self,
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> list[IterDataPipe[Any]]: ...
    def fullsync(self, timeout: float = 1800) -> IterDataPipe[Any]: ...
    def groupby(
        self,
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> IterDataPipe[Any]: ...
    def header(self, limit: int | None = 10) -> IterDataPipe[Any]: ...
    def in_batch_shuffle(self) -> IterDataPipe[Any]: ...
    def in_memory_cache(self, size: int | None = None) -> IterDataPipe[Any]: ...
    def lines_to_paragraphs(self, joiner: Callable[[list[Any]], Any] = ...) -> IterDataPipe[Any]: ...
    def list_files(
        self,
        masks: str | list[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> IterDataPipe[Any]: ...
    def list_files_by_ais(self, url: str, length: int = -1) -> IterDataPipe[Any]: ...
    def list_files_by_fsspec(self, masks: str | list[str] = "", **kwargs: Any) -> IterDataPipe[Any]: ...
    def list_files_by_iopath(
        self,
        masks: str | list[str] = "",
        *,
        pathmgr: Any = None,
        handler: Any = None,
    ) -> IterDataPipe[Any]: ...
    def list_files_by_s3(
        self,
        length: int = -1,
        request_timeout_ms: int = -1,
        region: str = "",
        masks: str | list[str] = "",
        *,
        endpoint_url: str | None = None,
    ) -> IterDataPipe[Any]: ...
    def load_files_by_ais(self, url: str, length: int = -1) -> IterDataPipe[Any]: ...
    def load_files_by_s3(
        self,
        request_timeout_ms: int = -1,
        region: str = "",
        buffer_size: int | None = None,
        multi_part_download: bool | None = None,
        *,
        endpoint_url: str | None = None,
    ) -> IterDataPipe[Any]: ...
    def load_from_bz2(self, length: int = -1) -> IterDataPipe[Any]: ...
    def load_from_rar(self, *, length: int = -1) -> IterDataPipe[Any]: ...
    def load_from_tar(self, mode: str = "r:*", length: int = -1) -> IterDataPipe[Any]: ...
    def load_from_tfrecord(self, spec: Any | None = None, length: int = -1) -> IterDataPipe[Any]: ...
    def load_from_xz(self, length: int = -1) -> IterDataPipe[Any]: ...
    def load_from_zip(self, length: int = -1) -> IterDataPipe[Any]: ...
    def load_parquet_as_df(
        self,
        dtype: Any = None,
        columns: list[str] | None = None,
        device: str = "",
        use_threads: bool = False,
    ) -> IterDataPipe[Any]: ...
    def map(self, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None) -> IterDataPipe[Any]: ...
    def map_batches(self, fn: Callable[..., Any], batch_size: int, input_col: Any = None) -> IterDataPipe[Any]: ...
    def max_token_bucketize(
        self,
        max_token_count: int,
        len_fn: Callable[[Any], int] = ...,
        min_len: int = 0,
        max_len: int | None = None,
        buffer_size: int = 1000,
        include_padding: bool = False,
    ) -> IterDataPipe[Any]: ...
    def memory_cell(self, remember_elements: int = 1000) -> IterDataPipe[Any]: ...
    def mux(self, *datapipes: IterDataPipe[T_co]) -> IterDataPipe[Any]: ...
    def mux_longest(self, *datapipes: IterDataPipe[T_co]) -> IterDataPipe[Any]: ...
    def on_disk_cache(
        self,
        filepath_fn: Callable[..., Any] | None = None,
        hash_dict: dict[str, str] | None = None,
        hash_type: str = "sha256",
        extra_check_fn: Callable[[str], bool] | None = None,
    ) -> IterDataPipe[Any]: ...
    def open_files(self, mode: str = "r", encoding: str | None = None, length: int = -1) -> IterDataPipe[Any]: ...
    def open_files_by_fsspec(
        self,
        mode: str = "r",
        *,
        kwargs_for_open: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> IterDataPipe[Any]: ...
    def open_files_by_iopath(self, mode: str = "r", pathmgr: Any = None, handler: Any = None) -> IterDataPipe[Any]: ...
    def parse_csv(
        self,
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = False,
        as_tuple: bool = False,
        **fmtparams: Any,
    ) -> IterDataPipe[Any]: ...
    def parse_csv_as_dict(
        self,
        *,
        skip_lines: int = 0,
        decode: bool = True,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = False,
        **fmtparams: Any,
    ) -> IterDataPipe[Any]: ...
    def parse_json_files(self, **kwargs: Any) -> IterDataPipe[Any]: ...
    def pin_memory(self, device: Any = None, pin_memory_fn: Callable[..., Any] = ...) -> IterDataPipe[Any]: ...
    def prefetch(self, buffer_size: int = 10) -> IterDataPipe[Any]: ...
    def random_split(
        self,
        weights: dict[Any, int | float],
        seed: Any,
        total_length: int | None = None,
        target: Any = None,
    ) -> Any: ...
    def read_from_gdrive(
        self,
        *,
        timeout: float | None = None,
        skip_on_error: bool = False,
        **kwargs: Any,
    ) -> IterDataPipe[Any]: ...
    def read_from_http(
        self,
        timeout: float | None = None,
        skip_on_error: bool = False,
        **kwargs: Any,
    ) -> IterDataPipe[Any]: ...
    def read_from_remote(
        self,
        *,
        timeout: float | None = None,
        skip_on_error: bool = False,
        **kwargs: Any,
    ) -> IterDataPipe[Any]: ...
    def read_from_stream(self, chunk: int | None = None) -> IterDataPipe[Any]: ...
    def readlines(
        self,
        *,
        skip_lines: int = 0,
        strip_newline: bool = True,
        decode: bool = False,
        encoding: str = "utf-8",
        errors: str = "ignore",
        return_path: bool = True,
    ) -> IterDataPipe[Any]: ...
    def repeat(self, times: int) -> IterDataPipe[Any]: ...
    def round_robin_demux(self, num_instances: int, buffer_size: int = 1000) -> list[IterDataPipe[Any]]: ...
    def routed_decode(
        self,
        *handlers: Callable[[str, bytes], Any],
        key_fn: Callable[[str], str] = ...,
    ) -> IterDataPipe[Any]: ...
    def rows2columnar(self, column_names: list[str] | None = None) -> IterDataPipe[Any]: ...
    def save_by_fsspec(
        self,
        mode: str = "w",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        kwargs_for_open: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> IterDataPipe[Any]: ...
    def save_by_iopath(
        self,
        mode: str = "w",
        filepath_fn: Callable[[Any], str] | None = None,
        *,
        pathmgr: Any = None,
        handler: Any = None,
    ) -> IterDataPipe[Any]: ...
    def save_to_disk(self, mode: str = "w", filepath_fn: Callable[[Any], str] | None = None) -> IterDataPipe[Any]: ...
    def set_length(self, length: int) -> IterDataPipe[Any]: ...
    def shard_expand(self) -> IterDataPipe[Any]: ...
    def sharding_filter(self, sharding_group_filter: Any | None = None) -> IterDataPipe[Any]: ...
    def sharding_round_robin_dispatch(self, sharding_group_filter: Any | None = None) -> IterDataPipe[Any]: ...
    def shuffle(self, *, buffer_size: int = 10000, unbatch_level: int = 0) -> IterDataPipe[Any]: ...
    def shuffled_flatmap(
        self,
        fn: Callable[..., Any] | None = None,
        input_col: Any = None,
        buffer_size: int = 100,
    ) -> IterDataPipe[Any]: ...
    def slice(
        self,
        index: int | list[Hashable],
        stop: int | None = None,
        step: int | None = None,
    ) -> IterDataPipe[Any]: ...
    def threadpool_map(
        self,
        fn: Callable[..., Any],
        input_col: Any = None,
        output_col: Any = None,
        scheduled_tasks: int = 128,
        max_workers: int | None = None,
        **threadpool_kwargs: Any,
    ) -> IterDataPipe[Any]: ...
    def to_map_datapipe(self, key_value_fn: Callable[[Any], tuple[Any, Any]] | None = None) -> MapDataPipe[Any]: ...
    def trace_as_dataframe(self, schema_df: Any = None) -> IterDataPipe[Any]: ...
    def unbatch(self, unbatch_level: int = 1) -> IterDataPipe[Any]: ...
    def unzip(
        self,
        sequence_length: int,
        buffer_size: int = 1000,
        columns_to_skip: Sequence[int] | None = None,
    ) -> list[IterDataPipe[Any]]: ...
    def webdataset(self) -> IterDataPipe[Any]: ...
    def zip(self, *datapipes: IterDataPipe[Any]) -> IterDataPipe[Any]: ...
    def zip_longest(self, *datapipes: IterDataPipe[Any], fill_value: Any = None) -> IterDataPipe[Any]: ...
    def zip_with_iter(
        self,
        ref_datapipe: IterDataPipe[Any],
        key_fn: Callable[[Any], Any],
        ref_key_fn: Callable[[Any], Any] | None = None,
        keep_key: bool = False,
        buffer_size: int = 10000,
        merge_fn: Callable[[Any, Any], Any] | None = None,
    ) -> IterDataPipe[Any]: ...
    def zip_with_map(
        self,
        map_datapipe: MapDataPipe[Any],
        key_fn: Callable[[Any], Any],
        merge_fn: Callable[[Any, Any], Any] | None = None,
        keep_key: bool = False,
    ) -> IterDataPipe[Any]: ...

class DFIterDataPipe(IterDataPipe[T_co]):
    def _is_dfpipe(self) -> bool: ...

class MapDataPipe(_Registered, Dataset[T_co]):
    def __getitem__(self, index: Any) -> T_co: ...
    def batch(
        self,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[..., Any] = ...,
    ) -> MapDataPipe[Any]: ...
    def concat(self, *datapipes: MapDataPipe[T_co]) -> MapDataPipe[Any]: ...
    def in_memory_cache(self) -> MapDataPipe[Any]: ...
    def map(self, fn: Callable[..., Any] = ...) -> MapDataPipe[Any]: ...
    def shuffle(self, *, indices: list[Any] | None = None) -> IterDataPipe[Any]: ...
    def to_iter_datapipe(self, indices: list[Any] | None = None) -> IterDataPipe[Any]: ...
    def unzip(self, sequence_length: int, columns_to_skip: Sequence[int] | None = None) -> list[MapDataPipe[Any]]: ...
    def zip(self, *datapipes: MapDataPipe[T_co]) -> MapDataPipe[Any]: ...
