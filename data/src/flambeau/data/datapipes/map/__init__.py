"""Pipes that are read by keys, in any order."""

from flambeau.data.datapipes.datapipe import MapDataPipe, functional_datapipe
from flambeau.data.datapipes.map.caching import InMemoryCacheHolderMapDataPipe as InMemoryCacheHolder
from flambeau.data.datapipes.map.callable import MapperMapDataPipe as Mapper
from flambeau.data.datapipes.map.combining import ConcaterMapDataPipe as Concater
from flambeau.data.datapipes.map.combining import UnZipperMapDataPipe as UnZipper
from flambeau.data.datapipes.map.combining import ZipperMapDataPipe as Zipper
from flambeau.data.datapipes.map.grouping import BatcherMapDataPipe as Batcher
from flambeau.data.datapipes.map.shuffling import ShufflerIterDataPipe as Shuffler
from flambeau.data.datapipes.map.sources import IterToMapConverterMapDataPipe as IterToMapConverter
from flambeau.data.datapipes.map.sources import SequenceWrapperMapDataPipe as SequenceWrapper

__all__ = [
    "Batcher",
    "Concater",
    "InMemoryCacheHolder",
    "IterToMapConverter",
    "MapDataPipe",
    "Mapper",
    "SequenceWrapper",
    "Shuffler",
    "UnZipper",
    "Zipper",
    "functional_datapipe",
]
