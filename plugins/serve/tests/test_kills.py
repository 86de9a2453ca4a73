"""Workers are killed at random under load: every request is answered once, with its own answer."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter

import httpx2 as httpx
import pytest

from flambeau.serve.engine.settings import VersionSettings
from flambeau.serve.server import Server

pytestmark = pytest.mark.timeout(600)


def answers_under_kills(obedient, kills, clients, workers=2):
    """What clients were told while workers were killed, by whether it was right."""
    told: Counter[object] = Counter()
    over = threading.Event()
    settings = VersionSettings(batch_size=8, max_batch_delay_ms=0, queue_size=1000)
    with Server([obedient], port=0, management_port=0, workers=workers, settings=settings) as server:

        def client(number):
            with httpx.Client(base_url=server.url, timeout=60) as session:
                count = 0
                while not over.is_set():
                    count += 1
                    text = f"{number}-{count}"
                    answer = session.post("/predictions/obedient", content=f"echo {text}".encode())
                    right = answer.status_code == 200 and answer.json()["answer"] == text
                    told["right" if right else (answer.status_code, answer.text)] += 1

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        seed, done = random.Random(0), 0
        with httpx.Client(base_url=server.management_url, timeout=60) as management:
            while done < kills:
                pids = [
                    w["pid"] for w in management.get("/models/obedient").json()[0]["workers"] if w["status"] == "READY"
                ]
                if pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(seed.choice(pids), signal.SIGKILL)
                        done += 1
                time.sleep(seed.uniform(0, 0.05))
            over.set()
            for thread in threads:
                thread.join()
            restarts = sum(w["restarts"] for w in management.get("/models/obedient").json()[0]["workers"])
    assert restarts >= kills / 2
    return told


def test_a_few_kills_lose_nothing(obedient):
    told = answers_under_kills(obedient, kills=15, clients=8)
    assert set(told) == {"right"} and told["right"] > 20


@pytest.mark.slow
def test_a_thousand_kills_lose_nothing(obedient):
    told = answers_under_kills(obedient, kills=1000, clients=32)
    # A request that was alone with three workers when they were killed is taken for what killed them.
    unlucky = sum(count for what, count in told.items() if what != "right" and what[0] == 507)
    assert unlucky <= 2 and told["right"] + unlucky == told.total() and told["right"] > 1000
