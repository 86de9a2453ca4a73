"""Pipes that are read from the beginning to the end."""

from flambeau.data.datapipes import dataframe as _dataframe  # registers the methods of frames
from flambeau.data.datapipes.datapipe import DFIterDataPipe, IterDataPipe, functional_datapipe
from flambeau.data.datapipes.iter.ais import AISFileListerIterDataPipe as AISFileLister
from flambeau.data.datapipes.iter.ais import AISFileLoaderIterDataPipe as AISFileLoader
from flambeau.data.datapipes.iter.archives import Bz2FileLoaderIterDataPipe as Bz2FileLoader
from flambeau.data.datapipes.iter.archives import CompressionType
from flambeau.data.datapipes.iter.archives import DecompressorIterDataPipe as Decompressor
from flambeau.data.datapipes.iter.archives import ExtractorIterDataPipe as Extractor
from flambeau.data.datapipes.iter.archives import RarArchiveLoaderIterDataPipe as RarArchiveLoader
from flambeau.data.datapipes.iter.archives import TarArchiveLoaderIterDataPipe as TarArchiveLoader
from flambeau.data.datapipes.iter.archives import XzFileLoaderIterDataPipe as XzFileLoader
from flambeau.data.datapipes.iter.archives import ZipArchiveLoaderIterDataPipe as ZipArchiveLoader
from flambeau.data.datapipes.iter.caching import InMemoryCacheHolderIterDataPipe as InMemoryCacheHolder
from flambeau.data.datapipes.iter.caching import MemoryCellIterDataPipe as MemoryCell
from flambeau.data.datapipes.iter.callable import BatchMapperIterDataPipe as BatchMapper
from flambeau.data.datapipes.iter.callable import CollatorIterDataPipe as Collator
from flambeau.data.datapipes.iter.callable import FlatMapperIterDataPipe as FlatMapper
from flambeau.data.datapipes.iter.callable import MapperIterDataPipe as Mapper
from flambeau.data.datapipes.iter.combining import ConcaterIterDataPipe as Concater
from flambeau.data.datapipes.iter.combining import MultiplexerIterDataPipe as Multiplexer
from flambeau.data.datapipes.iter.combining import MultiplexerLongestIterDataPipe as MultiplexerLongest
from flambeau.data.datapipes.iter.combining import SampleMultiplexerDataPipe as SampleMultiplexer
from flambeau.data.datapipes.iter.combining import ZipperIterDataPipe as Zipper
from flambeau.data.datapipes.iter.combining import ZipperLongestIterDataPipe as ZipperLongest
from flambeau.data.datapipes.iter.concurrent import BatchAsyncMapperIterDataPipe as BatchAsyncMapper
from flambeau.data.datapipes.iter.concurrent import ThreadPoolMapperIterDataPipe as ThreadPoolMapper
from flambeau.data.datapipes.iter.decoding import RoutedDecoderIterDataPipe as RoutedDecoder
from flambeau.data.datapipes.iter.disk_cache import EndOnDiskCacheHolderIterDataPipe as EndOnDiskCacheHolder
from flambeau.data.datapipes.iter.disk_cache import OnDiskCacheHolderIterDataPipe as OnDiskCacheHolder
from flambeau.data.datapipes.iter.files import FileListerIterDataPipe as FileLister
from flambeau.data.datapipes.iter.files import FileOpenerIterDataPipe as FileOpener
from flambeau.data.datapipes.iter.files import SaverIterDataPipe as Saver
from flambeau.data.datapipes.iter.files import StreamReaderIterDataPipe as StreamReader
from flambeau.data.datapipes.iter.frames import DataFrameMakerIterDataPipe as DataFrameMaker
from flambeau.data.datapipes.iter.frames import ParquetDFLoaderIterDataPipe as ParquetDataFrameLoader
from flambeau.data.datapipes.iter.fsspec_files import FSSpecFileListerIterDataPipe as FSSpecFileLister
from flambeau.data.datapipes.iter.fsspec_files import FSSpecFileOpenerIterDataPipe as FSSpecFileOpener
from flambeau.data.datapipes.iter.fsspec_files import FSSpecSaverIterDataPipe as FSSpecSaver
from flambeau.data.datapipes.iter.fullsync import FullSyncIterDataPipe as FullSync
from flambeau.data.datapipes.iter.grouping import BatcherIterDataPipe as Batcher
from flambeau.data.datapipes.iter.grouping import BucketBatcherIterDataPipe as BucketBatcher
from flambeau.data.datapipes.iter.grouping import GrouperIterDataPipe as Grouper
from flambeau.data.datapipes.iter.grouping import MaxTokenBucketizerIterDataPipe as MaxTokenBucketizer
from flambeau.data.datapipes.iter.grouping import ParagraphAggregatorIterDataPipe as ParagraphAggregator
from flambeau.data.datapipes.iter.grouping import Rows2ColumnarIterDataPipe as Rows2Columnar
from flambeau.data.datapipes.iter.grouping import UnBatcherIterDataPipe as UnBatcher
from flambeau.data.datapipes.iter.grouping import WebDatasetIterDataPipe as WebDataset
from flambeau.data.datapipes.iter.hashing import HashCheckerIterDataPipe as HashChecker
from flambeau.data.datapipes.iter.iopath_files import IoPathFileListerIterDataPipe as IoPathFileLister
from flambeau.data.datapipes.iter.iopath_files import IoPathFileOpenerIterDataPipe as IoPathFileOpener
from flambeau.data.datapipes.iter.iopath_files import IoPathSaverIterDataPipe as IoPathSaver
from flambeau.data.datapipes.iter.joining import IterKeyZipperIterDataPipe as IterKeyZipper
from flambeau.data.datapipes.iter.joining import MapKeyZipperIterDataPipe as MapKeyZipper
from flambeau.data.datapipes.iter.prefetching import PinMemoryIterDataPipe as PinMemory
from flambeau.data.datapipes.iter.prefetching import PrefetcherIterDataPipe as Prefetcher
from flambeau.data.datapipes.iter.remote_files import GDriveReaderDataPipe as GDriveReader
from flambeau.data.datapipes.iter.remote_files import HTTPReaderIterDataPipe as HttpReader
from flambeau.data.datapipes.iter.remote_files import HuggingFaceHubReaderIterDataPipe as HuggingFaceHubReader
from flambeau.data.datapipes.iter.remote_files import OnlineReaderIterDataPipe as OnlineReader
from flambeau.data.datapipes.iter.repeating import CyclerIterDataPipe as Cycler
from flambeau.data.datapipes.iter.repeating import EnumeratorIterDataPipe as Enumerator
from flambeau.data.datapipes.iter.repeating import IndexAdderIterDataPipe as IndexAdder
from flambeau.data.datapipes.iter.repeating import LengthSetterIterDataPipe as LengthSetter
from flambeau.data.datapipes.iter.repeating import RepeaterIterDataPipe as Repeater
from flambeau.data.datapipes.iter.s3 import S3FileListerIterDataPipe as S3FileLister
from flambeau.data.datapipes.iter.s3 import S3FileLoaderIterDataPipe as S3FileLoader
from flambeau.data.datapipes.iter.selecting import DropperIterDataPipe as Dropper
from flambeau.data.datapipes.iter.selecting import FilterIterDataPipe as Filter
from flambeau.data.datapipes.iter.selecting import FlattenIterDataPipe as Flattener
from flambeau.data.datapipes.iter.selecting import HeaderIterDataPipe as Header
from flambeau.data.datapipes.iter.selecting import SliceIterDataPipe as Slicer
from flambeau.data.datapipes.iter.shard_names import ShardExpanderIterDataPipe as ShardExpander
from flambeau.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from flambeau.data.datapipes.iter.sharding import ShardingFilterIterDataPipe as ShardingFilter
from flambeau.data.datapipes.iter.sharding import (
    ShardingRoundRobinDispatcherIterDataPipe as ShardingRoundRobinDispatcher,
)
from flambeau.data.datapipes.iter.shuffling import InBatchShufflerIterDataPipe as InBatchShuffler
from flambeau.data.datapipes.iter.shuffling import ShuffledFlatMapperIterDataPipe as ShuffledFlatMapper
from flambeau.data.datapipes.iter.shuffling import ShufflerIterDataPipe as Shuffler
from flambeau.data.datapipes.iter.sources import IterableWrapperIterDataPipe as IterableWrapper
from flambeau.data.datapipes.iter.sources import MapToIterConverterIterDataPipe as MapToIterConverter
from flambeau.data.datapipes.iter.sources import SamplerIterDataPipe as Sampler
from flambeau.data.datapipes.iter.splitting import DemultiplexerIterDataPipe as Demultiplexer
from flambeau.data.datapipes.iter.splitting import ForkerIterDataPipe as Forker
from flambeau.data.datapipes.iter.splitting import RandomSplitterIterDataPipe as RandomSplitter
from flambeau.data.datapipes.iter.splitting import RoundRobinDemultiplexerIterDataPipe as RoundRobinDemultiplexer
from flambeau.data.datapipes.iter.splitting import UnZipperIterDataPipe as UnZipper
from flambeau.data.datapipes.iter.text import CSVDictParserIterDataPipe as CSVDictParser
from flambeau.data.datapipes.iter.text import CSVParserIterDataPipe as CSVParser
from flambeau.data.datapipes.iter.text import JsonParserIterDataPipe as JsonParser
from flambeau.data.datapipes.iter.text import LineReaderIterDataPipe as LineReader
from flambeau.data.datapipes.iter.tfrecord import TFRecordLoaderIterDataPipe as TFRecordLoader
from flambeau.data.datapipes.map import sources as _pairs  # registers `to_map_datapipe`

__all__ = [
    "SHARDING_PRIORITIES",
    "AISFileLister",
    "AISFileLoader",
    "BatchAsyncMapper",
    "BatchMapper",
    "Batcher",
    "BucketBatcher",
    "Bz2FileLoader",
    "CSVDictParser",
    "CSVParser",
    "Collator",
    "CompressionType",
    "Concater",
    "Cycler",
    "DFIterDataPipe",
    "DataFrameMaker",
    "Decompressor",
    "Demultiplexer",
    "Dropper",
    "EndOnDiskCacheHolder",
    "Enumerator",
    "Extractor",
    "FSSpecFileLister",
    "FSSpecFileOpener",
    "FSSpecSaver",
    "FileLister",
    "FileOpener",
    "Filter",
    "FlatMapper",
    "Flattener",
    "Forker",
    "FullSync",
    "GDriveReader",
    "Grouper",
    "HashChecker",
    "Header",
    "HttpReader",
    "HuggingFaceHubReader",
    "InBatchShuffler",
    "InMemoryCacheHolder",
    "IndexAdder",
    "IoPathFileLister",
    "IoPathFileOpener",
    "IoPathSaver",
    "IterDataPipe",
    "IterKeyZipper",
    "IterableWrapper",
    "JsonParser",
    "LengthSetter",
    "LineReader",
    "MapKeyZipper",
    "MapToIterConverter",
    "Mapper",
    "MaxTokenBucketizer",
    "MemoryCell",
    "Multiplexer",
    "MultiplexerLongest",
    "OnDiskCacheHolder",
    "OnlineReader",
    "ParagraphAggregator",
    "ParquetDataFrameLoader",
    "PinMemory",
    "Prefetcher",
    "RandomSplitter",
    "RarArchiveLoader",
    "Repeater",
    "RoundRobinDemultiplexer",
    "RoutedDecoder",
    "Rows2Columnar",
    "S3FileLister",
    "S3FileLoader",
    "SampleMultiplexer",
    "Sampler",
    "Saver",
    "ShardExpander",
    "ShardingFilter",
    "ShardingRoundRobinDispatcher",
    "ShuffledFlatMapper",
    "Shuffler",
    "Slicer",
    "StreamReader",
    "TFRecordLoader",
    "TarArchiveLoader",
    "ThreadPoolMapper",
    "UnBatcher",
    "UnZipper",
    "WebDataset",
    "XzFileLoader",
    "ZipArchiveLoader",
    "Zipper",
    "ZipperLongest",
    "functional_datapipe",
]
