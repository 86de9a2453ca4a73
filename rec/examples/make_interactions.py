"""Write `interactions.csv`: forty made-up people, who like films of one kind and look at another now and then.

::

    python make_interactions.py interactions.csv
    flambeau predict interactions.csv --top 3 --out answer.png
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

FILMS = {
    "space": ("Orbit", "Comet", "Far Sun", "Red Dust", "The Long Way", "Station Nine"),
    "crime": ("Harbour", "The Third Key", "Alibi", "Night Shift", "Cold Ink"),
    "farce": ("Two Left Shoes", "Wrong Wedding", "The Lodger", "Pigeons", "Upstairs"),
}
DAY = 86_400


def interactions(people: int = 40, seed: int = 1) -> list[tuple[str, str, int, int]]:
    """User, film, rating from 1 to 5, and seconds since 1970, in the order of time."""
    draw = random.Random(seed)
    rows = []
    for number in range(people):
        liked, other = draw.sample(sorted(FILMS), 2)
        films = draw.sample(FILMS[liked], draw.randint(2, len(FILMS[liked]) - 1))
        films += draw.sample(FILMS[other], draw.choice((0, 0, 1, 2)))
        for film in films:
            rating = 5 if film in FILMS[liked] else draw.randint(1, 4)
            rows.append((f"user{number:02d}", film, rating, 1_700_000_000 + DAY * draw.randint(1, 300)))
    return sorted(rows, key=lambda row: row[3])


def main() -> None:
    """Write the file that the command line names."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "interactions.csv")
    lines = [",".join(map(str, row)) for row in interactions()]
    path.write_text("\n".join(["user_id,item_id,rating,timestamp", *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
