"""Datasets in miniature: a few items in the true layout, packed as they are published; for tests and conformance.

Each function writes the files that are fetched below a dataset's folder, and returns the items of each split.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

Items = dict[str, list[Any]]

_WORDS = ("calm", "bright", "slow", "narrow", "loud", "éclat", "größer", "日本")


def write_miniature(name: str, folder: Path) -> Items:
    """Write a dataset's files as they are published.

    Args:
        name: of the dataset, as upstream spells it.
        folder: the dataset's own.

    Returns:
        The items of each split that a pipeline gives.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return _WRITERS[name](folder)


def _classification(
    archive: str | None, inside: str, parts: int, splits: Sequence[str] = ("train", "test")
) -> Callable[[Path], Items]:
    def write(folder: Path) -> Items:
        rows: dict[str, list[tuple[Any, ...]]] = {
            split: [
                (1 + number % 2, *(f'{split} {number}.{part} "{word}"\n, {word}' for part in range(parts)))
                for number, word in enumerate(_WORDS)
            ]
            for split in splits
        }
        files = {f"{inside}{split}.csv": _csv(rows[split], quote_all=True) for split in splits}
        _publish(folder, archive, files)
        return {split: [(row[0], " ".join(row[1:])) for row in rows[split]] for split in splits}

    return write


def _rows(
    archive: str | None,
    members: Mapping[str, str],
    header: Sequence[str] | Mapping[str, Sequence[str]] | None,
    row: Callable[[str, int], Sequence[Any]],
    item: Callable[[str, Sequence[Any]], Any],
    *,
    quoted: bool = False,
    lost: int = 0,
) -> Callable[[Path], Items]:
    """Tables with tabs: `row` makes a row for a split and a number, `item` the item of it or None."""

    def write(folder: Path) -> Items:
        rows = {split: [row(split, number) for number in range(6)] for split in members}
        files = {}
        for split, member in members.items():
            names = header.get(split) if isinstance(header, Mapping) else header
            table = [*([names] if names else []), *rows[split]]
            files[member] = _csv(table, delimiter="\t") if quoted else _tabs(table)
        _publish(folder, archive, files)
        made = {split: [item(split, each) for each in rows[split][lost:]] for split in members}
        return {split: [each for each in items if each is not None] for split, items in made.items()}

    return write


def _lines(
    archive: str | Mapping[str, str] | None, members: Mapping[str, str], item: Callable[[str], str]
) -> Callable[[Path], Items]:
    def write(folder: Path) -> Items:
        texts = {split: ["\n", f" = {split} = \n", " \n", " the éclat of <unk> \n"] for split in members}
        files = {member: "".join(texts[split]).encode() for split, member in members.items()}
        _publish(folder, archive, files)
        return {split: [item(line) for line in lines] for split, lines in texts.items()}

    return write


def _tagged(
    members: Mapping[str, str], separator: str, publish: Callable[[Path, dict[str, bytes]], object]
) -> Callable[[Path], Items]:
    def write(folder: Path) -> Items:
        sentences = {
            split: [
                [[f"{split}{number}", word, "."], ["NOUN", "ADJ", "PUNCT"], ["NN", "JJ", "."]]
                for number, word in enumerate(_WORDS[:5])
            ]
            for split in members
        }
        files = {
            member: "\n".join(
                "".join(f"{separator.join(token)}\n" for token in zip(*sentence, strict=True))
                for sentence in sentences[split]
            ).encode()
            for split, member in members.items()
        }
        publish(folder, files)
        return dict(sentences)

    return write


def _squad(version: str) -> Callable[[Path], Items]:
    def write(folder: Path) -> Items:
        items: Items = {}
        for split in ("train", "dev"):
            items[split] = [
                (f"{split} says {word}, and {word} again.", f"What is {word}?", [word, word], [11, 20])
                for word in _WORDS[:3]
            ]
            if version == "2.0":
                items[split].append((items[split][-1][0], "Who knows?", [""], [-1]))
            paragraphs: dict[str, list[Any]] = {}
            for context, question, answers, starts in items[split]:
                known = [
                    {"text": answer, "answer_start": start}
                    for answer, start in zip(answers, starts, strict=True)
                    if start >= 0
                ]
                paragraphs.setdefault(context, []).append({"id": question, "question": question, "answers": known})
            data = [{"title": "t", "paragraphs": [{"context": c, "qas": q} for c, q in paragraphs.items()]}]
            document = json.dumps({"version": version, "data": data})
            (folder / f"{split}-v{version}.json").write_text(document, encoding="utf-8")
        return items

    return write


def _imdb(folder: Path) -> Items:
    files, items = {}, {}
    for split in ("train", "test"):
        reviews = {label: [f"{split} {label} {word}<br /><br />!" for word in _WORDS[:4]] for label in ("neg", "pos")}
        for label, texts in reviews.items():
            for number, text in enumerate(texts):
                files[f"aclImdb/{split}/{label}/{number}_{number}.txt"] = text.encode()
        files[f"aclImdb/{split}/unsup/0_0.txt"] = b"not part of it"
        files[f"aclImdb/{split}/labeledBow.feat"] = b"9 0:9"
        items[split] = [(tag, text) for tag, label in ((1, "neg"), (2, "pos")) for text in reviews[label]]
    _tar(folder / "aclImdb_v1.tar.gz", files)
    return items


def _cc100(folder: Path) -> Items:
    lines = ["First of one.", "Second of one.", "", f"First of two: {_WORDS[5]}."]
    (folder / "en.txt.xz").write_bytes(lzma.compress("".join(f"{line}\n" for line in lines).encode()))
    return {"train": [("en", line) for line in lines]}


def _multi30k(folder: Path) -> Items:
    items: Items = {}
    archives = {
        "train": ("training", "train"), "valid": ("validation", "val"), "test": ("mmt16_task1_test", "test")
    }  # fmt: skip
    for split, (archive, prefix) in archives.items():
        pairs = [(f"Ein {word} {split}.", f"A {word} {split}.") for word in _WORDS[:5]]
        files = {
            f"./._{prefix}.de": b"what macOS adds",
            f"./{prefix}.de": "".join(f"{source}\n" for source, _ in pairs).encode(),
            f"./{prefix}.en": "".join(f"{target}\n" for _, target in pairs).encode(),
        }
        _tar(folder / f"{archive}.tar.gz", files)
        items[split] = list(pairs)
    raw = folder / "task1" / "raw"
    raw.mkdir(parents=True)
    for split in ("test_2017_flickr", "test_2017_mscoco", "test_2018_flickr"):
        items[split] = [(f"Ein {word} {split}.", f"A {word} {split}.") for word in _WORDS[:5]]
        for language, column in (("de", 0), ("en", 1)):
            body = "".join(f"{pair[column]}\n" for pair in items[split]).encode()
            (raw / f"{split}.{language}.gz").write_bytes(gzip.compress(body, mtime=0))
    return items


def _iwslt(year: int) -> Callable[[Path], Items]:
    def write(folder: Path) -> Items:
        held_out = {"valid": "tst2013", "test": "tst2014"} if year == 16 else {"valid": "dev2010", "test": "tst2010"}
        items: Items = {}
        inner: dict[str, bytes] = {}
        top = "de-en" if year == 16 else "DeEnItNlRo-DeEnItNlRo"
        for split in ("train", "valid", "test"):
            items[split] = [(f"Ein {word} & {split}.\n", f"A {word} & {split}.\n") for word in _WORDS[:4]]
            for language, column in (("de", 0), ("en", 1)):
                lines = [pair[column] for pair in items[split]]
                if split == "train":
                    text = "<url>http://example.org</url>\n<doc docid='1'>\n" + "".join(f" {each}" for each in lines)
                    inner[f"{top}/train.tags.de-en.{language}"] = f"{text}</doc>\n".encode()
                else:
                    segments = "".join(
                        f'<seg id="{number}"> {line.strip().replace("&", "&amp;")} </seg>\n'
                        for number, line in enumerate(lines, start=1)
                    )
                    body = f'<doc docid="1"><title>Not this</title>\n{segments}</doc>'
                    document = f'<?xml version="1.0" encoding="UTF-8"?>\n<mteval><srcset>{body}</srcset></mteval>'
                    inner[f"{top}/IWSLT{year}.TED.{held_out[split]}.de-en.{language}.xml"] = document.encode()
        packed = io.BytesIO()
        _tar(packed, inner)
        if year == 16:
            _tar(folder / "2016-01.tgz", {"2016-01/texts/de/en/de-en.tgz": packed.getvalue()})
        else:
            path = "2017-01-trnmted/texts/DeEnItNlRo/DeEnItNlRo/DeEnItNlRo-DeEnItNlRo.tgz"
            _tar(folder / "2017-01-trnmted.tgz", {path: packed.getvalue()})
        return items

    return write


def _cnndm(folder: Path) -> Items:
    items: Items = {"train": [], "val": [], "test": []}
    for paper in ("cnn", "dailymail"):
        files = {}
        for split, long in (("train", "training"), ("val", "validation"), ("test", "test")):
            urls = [f"http://web.archive.org/{paper}/{split}/{number}.html" for number in range(3)]
            (folder / f"{paper}_wayback_{long}_urls.txt").write_text("".join(f"{url}\n" for url in urls))
            for number, url in enumerate(urls):
                digest = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
                story = f"A {split} story {number}\n\nIt ends.\n\n@highlight\n\nIn short\n\n@highlight\n\nNo more!\n"
                files[f"{paper}/stories/{digest}.story"] = story.encode()
                items[split].append((f"A {split} story {number} . It ends.", "In short . No more!"))
        files[f"{paper}/stories/{'0' * 40}.story"] = b"in no list"
        _tar(folder / f"{paper}_stories.tgz", files)
    return items


def _gz_each(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, body in files.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(body, mtime=0))


def _udpos_zip(folder: Path, files: Mapping[str, bytes]) -> None:
    _zip(folder / "en-ud-v2.zip", {f"en-ud-v2/en-ud-tag.v2.{name}": body for name, body in files.items()})


def _publish(folder: Path, archive: str | Mapping[str, str] | None, files: Mapping[str, bytes]) -> None:
    if archive is None:
        for name, body in files.items():
            (folder / name).write_bytes(body)
    elif str(archive).endswith(".zip"):
        _zip(folder / str(archive), files)
    else:
        _tar(folder / str(archive), files)


def _zip(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)


def _tar(target: Path | io.BytesIO, files: Mapping[str, bytes]) -> None:
    opened: dict[str, Any] = {"fileobj": target} if isinstance(target, io.BytesIO) else {"name": target}
    with tarfile.open(mode="w:gz", **opened) as archive:
        for name, body in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))


def _csv(rows: Iterable[Sequence[Any]], *, delimiter: str = ",", quote_all: bool = False) -> bytes:
    out = io.StringIO(newline="")
    quoting: Literal[0, 1] = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def _tabs(rows: Iterable[Sequence[Any]]) -> bytes:
    return "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()


def _glue(folder: str) -> dict[str, str]:
    return {split: f"{folder}/{split}.tsv" for split in ("train", "dev", "test")}


def _pair_row(labels: Sequence[Any]) -> Callable[[str, int], Sequence[Any]]:
    def row(split: str, number: int) -> Sequence[Any]:
        first, second = f'Is "{_WORDS[number]}" it?', f"It is {split} {number}."
        return (number, first, second, *(() if split == "test" else (labels[number % 2],)))

    return row


def _pair_item(numbers: Mapping[Any, int]) -> Callable[[str, Sequence[Any]], Any]:
    def item(split: str, row: Sequence[Any]) -> Any:
        return (row[1], row[2]) if split == "test" else (numbers[row[3]], row[1], row[2])

    return item


_ENTAILS = {"entailment": 0, "not_entailment": 1}
_PAIR_HEADER = ("index", "sentence1", "sentence2", "label")
_MNLI = ("entailment", "neutral", "contradiction", "-")
_WRITERS: dict[str, Callable[[Path], Items]] = {
    "AG_NEWS": _classification(None, "", 2),
    "AmazonReviewFull": _classification("amazon_review_full_csv.tar.gz", "amazon_review_full_csv/", 2),
    "AmazonReviewPolarity": _classification("amazon_review_polarity_csv.tar.gz", "amazon_review_polarity_csv/", 2),
    "DBpedia": _classification("dbpedia_csv.tar.gz", "dbpedia_csv/", 2),
    "SogouNews": _classification("sogou_news_csv.tar.gz", "sogou_news_csv/", 2),
    "YahooAnswers": _classification("yahoo_answers_csv.tar.gz", "yahoo_answers_csv/", 3),
    "YelpReviewFull": _classification("yelp_review_full_csv.tar.gz", "yelp_review_full_csv/", 1),
    "YelpReviewPolarity": _classification("yelp_review_polarity_csv.tar.gz", "yelp_review_polarity_csv/", 1),
    "CC100": _cc100,
    "CNNDM": _cnndm,
    "IMDB": _imdb,
    "IWSLT2016": _iwslt(16),
    "IWSLT2017": _iwslt(17),
    "Multi30k": _multi30k,
    "SQuAD1": _squad("1.1"),
    "SQuAD2": _squad("2.0"),
    "CoLA": _rows(
        "cola_public_1.1.zip",
        {
            "train": "cola_public/raw/in_domain_train.tsv",
            "dev": "cola_public/raw/in_domain_dev.tsv",
            "test": "cola_public/raw/out_of_domain_dev.tsv",
        },
        None,
        lambda split, number: ("gj04", number % 2, "*", f'"{_WORDS[number]}" in {split}') if number != 3 else ("odd",),
        lambda split, row: (row[0], row[1], row[3]) if len(row) == 4 else None,
        lost=1,
    ),
    "SST2": _rows(
        "SST-2.zip",
        _glue("SST-2"),
        {"train": ("sentence", "label"), "dev": ("sentence", "label"), "test": ("index", "sentence")},
        lambda split, number: (
            (number, f"{_WORDS[number]} {split} ") if split == "test" else (f"{_WORDS[number]} {split} ", number % 2)
        ),
        lambda split, row: (row[1].strip(),) if split == "test" else (row[0].strip(), row[1]),
        quoted=True,
    ),
    "QNLI": _rows("QNLIv2.zip", _glue("QNLI"), _PAIR_HEADER, _pair_row(list(_ENTAILS)), _pair_item(_ENTAILS)),
    "RTE": _rows("RTE.zip", _glue("RTE"), _PAIR_HEADER, _pair_row(list(_ENTAILS)), _pair_item(_ENTAILS)),
    "WNLI": _rows("WNLI.zip", _glue("WNLI"), _PAIR_HEADER, _pair_row((0, 1)), _pair_item({0: 0, 1: 1}), quoted=True),
    "MRPC": _rows(
        None,
        {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
        lambda split, number: (number % 2, 10, 20, f'He said "{_WORDS[number]}', f"{split} {number}"),
        lambda split, row: (row[0], row[3], row[4]),
    ),
    "QQP": _rows(
        None,
        {"train": "quora_duplicate_questions.tsv"},
        ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
        lambda split, number: (number, 1, 2, f'What is\n"{_WORDS[number]}"?', f"Is it {number}?", number % 2),
        lambda split, row: (row[5], row[3], row[4]),
        quoted=True,
    ),
    "STSB": _rows(
        "Stsbenchmark.tar.gz",
        {split: f"stsbenchmark/sts-{split}.csv" for split in ("train", "dev", "test")},
        None,
        lambda split, number: (
            "main-news", "headlines", 2012, number, f"{number / 2:.3f}", f'A "{_WORDS[number]}', split,
            *(("license", "url") if number == 2 else ()),
        ),
        lambda split, row: (row[3], float(row[4]), row[5], row[6]),
    ),
    "MNLI": _rows(
        "multinli_1.0.zip",
        {
            split: f"multinli_1.0/multinli_1.0_{split}.txt"
            for split in ("train", "dev_matched", "dev_mismatched")
        },
        ("gold_label", "b1", "b2", "p1", "p2", "sentence1", "sentence2", "promptID"),
        lambda split, number: (_MNLI[number % 4], "( a )", "( b )", "(S a)", "(S b)", f'A "{number}', split, "1"),
        lambda split, row: None if row[0] == "-" else (_MNLI.index(row[0]), row[5], row[6]),
    ),
    "WikiText2": _lines(
        "wikitext-2-v1.zip", {s: f"wikitext-2/wiki.{s}.tokens" for s in ("train", "valid", "test")}, str
    ),
    "WikiText103": _lines(
        "wikitext-103-v1.zip", {s: f"wikitext-103/wiki.{s}.tokens" for s in ("train", "valid", "test")}, str
    ),
    "PennTreebank": _lines(None, {s: f"ptb.{s}.txt" for s in ("train", "valid", "test")}, str.strip),
    "EnWik9": _lines("enwik9.zip", {"train": "enwik9"}, lambda line: line.rstrip("\n")),
    "CoNLL2000Chunking": _tagged({"train": "train.txt", "test": "test.txt"}, " ", _gz_each),
    "UDPOS": _tagged({"train": "train.txt", "valid": "dev.txt", "test": "test.txt"}, "\t", _udpos_zip),
}  # fmt: skip
