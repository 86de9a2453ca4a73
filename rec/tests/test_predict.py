"""What `flambeau predict` does with interactions: rows for each user, a picture, and errors that name the line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from flambeau.core.errors import MissingInputError, PredictError
from flambeau.core.predict import PredictOptions, predict
from flambeau.rec.predict.interactions_file import read_interactions
from flambeau.rec.predict.picture import draw_rankings

EXAMPLES = Path(__file__).parents[1] / "examples"
BAR, TRACK = (46, 98, 160), (232, 235, 240)


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    path = tmp_path_factory.mktemp("films") / "interactions.csv"
    subprocess.run([sys.executable, str(EXAMPLES / "make_interactions.py"), str(path)], check=True)
    return path


def kinds():
    sys.path.insert(0, str(EXAMPLES))
    try:
        import make_interactions
    finally:
        sys.path.remove(str(EXAMPLES))
    return {film: kind for kind, films in make_interactions.FILMS.items() for film in films}


def test_users_are_ranked_what_is_like_what_they_had(films):
    answer = predict(films, options=PredictOptions(top=1))
    table, kind = read_interactions(str(films)), kinds()
    had: dict[str, list[str]] = {}
    for user, item in zip(table.users, table.items, strict=True):
        had.setdefault(user, []).append(item)
    assert [row["user"] for row in answer.rows] == list(had)
    fitting = 0
    for row in answer.rows:
        assert row["item"] not in had[row["user"]]
        liked = [kind[item] for item in had[row["user"]]]
        fitting += kind[row["item"]] == max(set(liked), key=liked.count)
    assert fitting > 0.7 * len(answer.rows)  # a third by chance; some like two kinds alike


def test_rows_are_ordered_and_say_why(films):
    answer = predict(films, options=PredictOptions(top=3))
    table = read_interactions(str(films))
    pairs = set(zip(table.users, table.items, strict=True))
    for user in dict.fromkeys(table.users):
        mine = [row for row in answer.rows if row["user"] == user]
        assert [row["rank"] for row in mine] == [1, 2, 3]
        scores = [row["score"] for row in mine]
        assert scores == sorted(scores, reverse=True)
        assert all(0 < score < 1 for score in scores)
        assert all((user, row["because"]) in pairs for row in mine)


def test_the_command_line_answers_with_the_weights_in_the_package(films, tmp_path):
    out = tmp_path / "answer.png"
    command = [sys.executable, "-m", "flambeau.core", "predict", str(films), "--json", "--top", "2", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert answer["weights"] == "rec/interaction_ranker:GENERATED_V1"
    assert answer["columns"] == ["user", "rank", "item", "score", "because"]
    assert len(answer["rows"]) == 80
    image = pytest.importorskip("PIL.Image").open(out).convert("RGB")
    first = [image.getpixel((x, 48 + 26 + 8)) for x in range(image.width // 2)]
    assert first.count(BAR) == pytest.approx(200 * answer["rows"][0]["score"], abs=1)


TABLES = {
    "names-of-movielens": "userId,movieId,rating,timestamp\n1,10,3.5,100\n1,11,4,101\n2,10,5,90\n",
    "semicolons": "user;item\n1;10\n1;11\n2;10\n",
    "tabs-and-other-columns": "note\tItem ID\tUser ID\n-\t10\t1\n-\t11\t1\n-\t10\t2\n",
    "byte-order-mark-and-blank-lines": "\ufeffuser,item\n1,10\n\n1,11\n2,10\n\n",
    "quotes": 'user,item\n1,"10"\n1,11\n2,10\n',
    "dates": "user,item,date\n1,10,2024-01-02\n1,11,2024-01-03T10:00:00+02:00\n2,10,2024-01-01 00:00:00\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_read_as_they_come(name, tmp_path):
    (tmp_path / "table.csv").write_text(TABLES[name], encoding="utf-8")
    table = read_interactions(str(tmp_path / "table.csv"))
    assert table.users == ["1", "1", "2"]
    assert table.items == ["10", "11", "10"]
    if table.times is not None:
        assert sorted(range(3), key=table.times.__getitem__) == [2, 0, 1]


BROKEN = {
    "": "is empty",
    "\n \n": "is empty",
    "user,item\n": "0 different users",
    "person,thing\n1,2\n": r"no column of users: its first line names person, thing\. Name one of them user_id",
    "user,thing\n1,2\n": "no column of items",
    "user,uid,item\n1,1,2\n": "'user' and 'uid' could both be the user's",
    "user,item\n1,2\n1\n": "line 3: it has 1 columns, the first line 2",
    "user,item\n1,2\n\n1,2,3\n": "line 4: it has 3 columns",
    "user,item\n1,2\n,3\n": "line 3: the user is empty",
    "user,item\n1,2\n2,2\n": "1 different items",
    "user,item,rating\n1,2,good\n2,3,1\n": "line 2: the value 'good' is not a finite number",
    "user,item,rating\n1,2,1\n2,3,nan\n": "line 3: the value 'nan' is not a finite number",
    "user,item,time\n1,2,soon\n2,3,1\n": "line 2: the time 'soon' is not a finite number",
    "user,item,time\n1,2,2024-13-01\n2,3,1\n": "line 2: the time '2024-13-01' is neither",
    'user,item\n1,"2\n2,3\n': "line",
    "user,item\n1,2\0\n": "bytes of 0",
    "user,item\n1,a\n1,b\n2,a\n2,b\n": "every user has had to do with every item",
}


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_table_is_refused_with_its_line(text, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PredictError, match=BROKEN[text]):
        predict(path)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(PredictError, match="not text in UTF-8"):
        predict(tmp_path / "picture.csv")
    with pytest.raises(MissingInputError, match=r"Close names there: picture\.csv"):
        predict(tmp_path / "pictures.csv")


def test_rare_items_give_way_to_frequent_ones(tmp_path):
    table = read_interactions(str(_many(tmp_path, items=30)))
    kept = table.of_items(10)
    assert set(kept.items) == {f"i{number}" for number in range(10)}
    assert len(kept.users) == len(kept.items) == sum(name in set(kept.items) for name in table.items)


def _many(folder: Path, items: int) -> Path:
    lines = [f"u{user},i{item}" for item in range(items) for user in range(items - item)]
    path = folder / "many.csv"
    path.write_text("\n".join(["user,item", *lines]))
    return path


def test_more_items_than_are_ranked_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr("flambeau.rec.predict.ranking._MOST_ITEMS", 10)
    answer = predict(_many(tmp_path, items=12))
    assert "10 items, 2 rare items left out" in answer.title
    assert not {row["item"] for row in answer.rows} & {"i10", "i11"}


# --- pictures --------------------------------------------------------------------------------------------------------


def test_a_vector_picture_has_a_bar_for_each_item(tmp_path):
    rows = [("Ann", "Orbit <&>", 0.75), ("Ann", "Комета", 0.25), ("Bob", "x" * 99, 0.0)]
    draw_rankings("a title", rows, tmp_path / "answer.svg")
    drawing = ElementTree.parse(tmp_path / "answer.svg").getroot()
    texts = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["a title", "Ann", "Orbit <&>", "0.75", "Комета", "0.25", "Bob", "x" * 16 + "…", "0.00"]
    widths = [element.get("width") for element in drawing.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[1:] == ["200.0", "150.0", "200.0", "50.0", "200.0", "0.0"]


def test_more_users_than_fit_are_counted(tmp_path):
    draw_rankings("", [(f"user {at}", "item", 0.5) for at in range(15)], tmp_path / "answer.svg")
    text = (tmp_path / "answer.svg").read_text()
    assert "user 11" in text
    assert "user 12" not in text
    assert "and 3 more users" in text


def test_an_unknown_format_is_refused_by_name(tmp_path):
    pytest.importorskip("PIL")
    with pytest.raises(PredictError, match=r"answer\.nonsense"):
        draw_rankings("", [("a", "b", 0.5)], tmp_path / "answer.nonsense")
