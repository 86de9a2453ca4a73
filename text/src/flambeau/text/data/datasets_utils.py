"""What the functions of `flambeau.text.datasets` are made of; names that start with `_` are upstream's.

Splits and folders as decorators, the cleaning of IWSLT's files, and three parsers: of SQuAD's JSON (`read_squad`), of
tagged sentences (`read_iob`) and of the stories of CNN/DailyMail (`parse_cnndm_data`).
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from torch.utils.data import IterDataPipe as TorchIterDataPipe

from flambeau.core.errors import FlambeauError
from flambeau.core.files import replace
from flambeau.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from flambeau.data.datapipes.utils import StreamWrapper

_TAGS = (
    "<url", "<keywords", "<talkid", "<description", "<reviewer", "<translator", "<title", "<speaker", "<doc", "</doc",
)  # fmt: skip


class XmlError(FlambeauError, ValueError):
    """XML that is damaged, or that declares entities, with which a small file can grow without bound."""


# --- splits and folders -------------------------------------------------------------------------------------------


def _check_default_set(
    split: str | tuple[str, ...], target_select: str | tuple[str, ...], dataset_name: str
) -> tuple[str, ...]:
    """The splits that are asked for, as a tuple.

    Raises:
        TypeError: one that the dataset does not have.
        ValueError: neither a string nor a tuple.
    """
    chosen = (split,) if isinstance(split, str) else split
    known = (target_select,) if isinstance(target_select, str) else target_select
    if not isinstance(chosen, tuple):
        raise ValueError(f"split has to be a string or a tuple of strings, got {type(split).__name__}.")
    if strange := [name for name in chosen if name not in known]:
        raise TypeError(f"{dataset_name} has no split {strange[0]!r}; its splits are {', '.join(map(repr, known))}.")
    return chosen


def _wrap_datasets(datasets: tuple[Any, ...], split: str | tuple[str, ...]) -> Any:
    """The one dataset where `split` is a string, else all of them.

    Raises:
        ValueError: a string, and not one dataset.
    """
    if not isinstance(split, str):
        return datasets
    if len(datasets) != 1:
        raise ValueError(f"split={split!r} stands for one dataset, got {len(datasets)}.")
    return datasets[0]


def _wrap_split_argument_with_fn(
    fn: Callable[..., Any], splits: tuple[str, ...], more: tuple[str, ...] = ()
) -> Callable[..., Any]:
    """Let a function of `(root, split, ...)` for one split take a tuple of splits, or none for all of `splits`.

    Args:
        fn: the function.
        splits: those that are meant by leaving `split` out.
        more: further ones, which have to be asked for.

    Raises:
        ValueError: a function that does not begin with these arguments, or takes others by star or keyword only.
    """
    _check_signature(fn, ["root", "split"])

    @functools.wraps(fn)
    def wrapped(root: Any = None, split: Any = splits, **kwargs: Any) -> Any:
        found = tuple(fn(_root(root), item, **kwargs) for item in _check_default_set(split, splits + more, fn.__name__))
        return _wrap_datasets(found, split)

    signature = inspect.signature(fn)
    first = {"root": ".data", "split": splits}
    wrapped.__signature__ = signature.replace(  # type: ignore[attr-defined]  # what `inspect` looks for
        parameters=[
            parameter.replace(default=first.get(name, parameter.default))
            for name, parameter in signature.parameters.items()
        ]
    )
    return wrapped


def _wrap_split_argument(
    splits: tuple[str, ...], more: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`_wrap_split_argument_with_fn` as a decorator."""

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        return _wrap_split_argument_with_fn(fn, splits, more)

    return decorate


def _create_dataset_directory(dataset_name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function that works in a dataset's own folder take the root of all: `<root>/datasets/<dataset_name>`.

    The root is the cache folder of texts when it is left out, whatever the signature shows.
    """

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        _check_signature(fn, ["root"])

        @functools.wraps(fn)
        def wrapper(root: Any = None, *args: Any, **kwargs: Any) -> Any:
            own = os.path.join(_root(root), "datasets", dataset_name)  # noqa: PTH118  # upstream: a string
            os.makedirs(own, exist_ok=True)  # noqa: PTH103
            return fn(own, *args, **kwargs)

        return wrapper

    return decorate


def _root(root: Any) -> str:
    if root is not None:
        path: str = os.path.expanduser(os.fspath(root))  # noqa: PTH111  # upstream: a string
        return path
    from flambeau import text

    return text._CACHE_DIR


def _check_signature(fn: Callable[..., Any], begin: list[str]) -> None:
    parameters = inspect.signature(fn).parameters.values()
    plain = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    if not plain or [parameter.name for parameter in parameters][: len(begin)] != begin:
        raise ValueError(
            f"{getattr(fn, '__name__', fn)} has to take {', '.join(begin)} first, and no arguments by star or by "
            f"keyword only; it takes {inspect.signature(fn)}."
        )


# --- IWSLT ----------------------------------------------------------------------------------------------------------


def _generate_iwslt_files_for_lang_and_split(
    year: int, src_language: str, tgt_language: str, valid_set: str, test_set: str
) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Names of a language pair's files: language -> split -> name, cleaned and as they are in the archive."""
    pair = f"{src_language}-{tgt_language}"
    sets = {"valid": valid_set, "test": test_set}

    def names(language: str, tags: str, suffix: str) -> dict[str, str]:
        held_out = {split: f"IWSLT{year}.TED.{name}.{pair}.{language}{suffix}" for split, name in sets.items()}
        return {"train": f"train.{tags}{pair}.{language}", **held_out}

    languages = (src_language, tgt_language)
    return (
        {language: names(language, "", "") for language in languages},
        {language: names(language, "tags.", ".xml") for language in languages},
    )


def _clean_inner_xml_file(outfile: str, stream: IO[bytes]) -> tuple[str, StreamWrapper]:
    """Write the text of each `seg` in an XML file, a line each and stripped.

    Args:
        outfile: where to.
        stream: of the XML file.

    Returns:
        `outfile`, and a stream of what was written.

    Raises:
        XmlError: no whole XML file, or one that declares entities.
    """
    return _written(outfile, segments(stream.read()))


def _clean_inner_tags_file(outfile: str, stream: IO[bytes]) -> tuple[str, StreamWrapper]:
    """Write the lines of a file that hold none of IWSLT's tags, stripped; arguments as `_clean_inner_xml_file`."""
    return _written(outfile, untagged(stream))


def _rewrite_text_file(outfile: str, stream: IO[bytes]) -> tuple[str, StreamWrapper]:
    """Write each line and an end of a line after it. Upstream: lines keep their own, so that empty ones follow."""
    return _written(outfile, (line.decode("utf-8") for line in stream))


def _clean_files(outfile: str, fname: str, stream: IO[bytes]) -> tuple[str, StreamWrapper]:
    """Clean a file of IWSLT by the kind its name tells: XML, with tags, or plain."""
    if "xml" in fname:
        return _clean_inner_xml_file(outfile, stream)
    return (_clean_inner_tags_file if "tags" in fname else _rewrite_text_file)(outfile, stream)


def segments(document: bytes) -> Iterator[str]:
    """The text of each `seg` of an IWSLT file, stripped.

    Raises:
        XmlError: no whole XML file, or one that declares entities.
    """
    for talk in _parsed(document)[0].findall("doc"):
        for segment in talk.findall("seg"):
            yield (segment.text or "").strip()


def untagged(lines: Iterable[bytes]) -> Iterator[str]:
    """The lines that hold none of IWSLT's tags, stripped."""
    for raw in lines:
        line = raw.decode("utf-8")
        if not any(tag in line for tag in _TAGS):
            yield line.strip()


def _parsed(document: bytes) -> Any:
    try:
        from defusedxml import DefusedXmlException, ElementTree
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the validation and test sets of IWSLT are XML, which is read with defusedxml. Run: pip install "
            "'flambeau-text[xml]'"
        ) from error
    try:
        return ElementTree.fromstring(document)
    except DefusedXmlException as error:
        raise XmlError(f"the XML file declares what no text needs: {error}. Fetch it again.") from error
    except ElementTree.ParseError as error:
        raise XmlError(f"this is no whole XML file: {error}. Fetch it again.") from error


def _written(outfile: str, lines: Iterable[str]) -> tuple[str, StreamWrapper]:
    target = Path(outfile)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            file.writelines(f"{line}\n" for line in lines)
        replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return outfile, StreamWrapper(target.open("rb"), name=outfile)


# --- parsers --------------------------------------------------------------------------------------------------------


def squad_items(document: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str], list[int]]]:
    """(context, question, answers, where they begin) for each question; [""], [-1] where there is no answer."""
    for article in document["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answers = [answer["text"] for answer in question["answers"]] or [""]
                starts = [answer["answer_start"] for answer in question["answers"]] or [-1]
                yield paragraph["context"], question["question"], answers, starts


def iob_columns(lines: Iterable[str], separator: str) -> Iterator[list[list[str]]]:
    """For each sentence its columns: words, and the tags of each kind."""
    columns: list[list[str]] = []
    for line in lines:
        text = line.strip()
        if not text:
            if columns:
                yield columns
            columns = []
            continue
        for index, value in enumerate(text.split(separator)):
            if index == len(columns):
                columns.append([])
            columns[index].append(value)
    if columns:
        yield columns


_ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")


def story_parts(lines: Sequence[bytes]) -> tuple[str, str]:
    """(article, abstract) of a story: its lines, and those after `@highlight`, joined by spaces.

    A line that does not end a sentence gets " ." (See et al. 2017, arXiv:1704.04368): captions of pictures among the
    lines have no full stop, and would run on.
    """
    article: list[str] = []
    abstract: list[str] = []
    into = article
    for raw in lines:
        line = raw.decode("utf-8").strip()
        if not line:
            continue
        if line.startswith("@highlight"):
            into = abstract
            continue
        into.append(line if line.endswith(_ENDS) or "@highlight" in line else f"{line} .")
    return " ".join(article), " ".join(abstract)


def _load_methods() -> None:
    """Let pipes have their methods, such as `map`: importing a dataset does without them."""
    import flambeau.data.datapipes.iter  # noqa: F401


@functional_datapipe("read_squad")
class _ParseSQuADQAData(IterDataPipe[tuple[str, str, list[str], list[int]]]):
    """Questions of SQuAD (functional name: `read_squad`).

    Args:
        source_datapipe: source of (path, parsed JSON document).

    Yields:
        (context, question, answers, where each begins in the context); [""] and [-1] for a question without answer.
    """

    state_fields = None

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        _load_methods()
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[tuple[str, str, list[str], list[int]]]:
        for _, document in self.source_datapipe:
            yield from squad_items(document)


@functional_datapipe("read_iob")
class _ParseIOBData(IterDataPipe[list[list[str]]]):
    """Tagged sentences (functional name: `read_iob`).

    Args:
        dp: source of (path, line): a token a line, an empty line between sentences.
        sep: between the columns of a line.

    Yields:
        A list of columns for each sentence, each a list of strings, one for each token.
    """

    state_fields = None

    def __init__(self, dp: IterDataPipe[Any], sep: str = "\t") -> None:
        _load_methods()
        self.dp = dp
        self.sep = sep

    def __iter__(self) -> Iterator[list[list[str]]]:
        yield from iob_columns((line for _, line in self.dp), self.sep)


@functional_datapipe("parse_cnndm_data")
class _ParseCNNDMData(IterDataPipe[tuple[str, str]]):
    """Stories of CNN and the Daily Mail (functional name: `parse_cnndm_data`).

    Args:
        source_datapipe: source of (path, stream of a story).

    Yields:
        (article, abstract).
    """

    state_fields = None

    def __init__(self, source_datapipe: IterDataPipe[Any]) -> None:
        _load_methods()
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for _, stream in self.source_datapipe:
            try:
                yield story_parts(stream.readlines())
            finally:
                stream.close()


# Pipes that torch itself still has take the parsers as methods too, unless torchtext has come first.
for _name, _parser in {
    "read_squad": _ParseSQuADQAData, "read_iob": _ParseIOBData, "parse_cnndm_data": _ParseCNNDMData
}.items():  # fmt: skip
    if _name not in TorchIterDataPipe.functions:
        TorchIterDataPipe.register_datapipe_as_function(_name, _parser)
