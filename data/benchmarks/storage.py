"""Object storage beside boto3 and s3fs, against an S3 server on this machine.

    python data/benchmarks/storage.py [--keys 200] [--large-mib 64] [--repetitions 3]

The server (moto) runs in a process of its own and is what limits the clock; the client's time of the processor is the
figure to compare. Ratios are the peer's over ours. Peers: `pip install boto3 s3fs`.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import boto3
from boto3.s3.transfer import TransferConfig

from flambeau.data.storage import list_objects, open_object

SMALL = 100_000
PARALLEL = 8

SERVER = """
import logging, sys, time
logging.getLogger("werkzeug").setLevel(logging.ERROR)
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
sys.stdin.read()
"""


def start_server() -> tuple[subprocess.Popen[str], str]:
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    host, port = server.stdout.readline().split()
    return server, f"http://{host}:{port}"


def client(endpoint: str) -> object:
    return boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")


def fill_bucket(endpoint: str, keys: int, large: int) -> None:
    s3 = client(endpoint)
    s3.create_bucket(Bucket="bench")  # type: ignore[attr-defined]
    for number in range(keys):
        s3.put_object(Bucket="bench", Key=f"small/{number:05}", Body=os.urandom(SMALL))  # type: ignore[attr-defined]
    s3.put_object(Bucket="bench", Key="large", Body=os.urandom(large))  # type: ignore[attr-defined]


Task = Callable[[], int]


def ours(endpoint: str, keys: int) -> dict[str, Task]:
    def read(url: str) -> int:
        with open_object(url, endpoint_url=endpoint) as file:
            return len(file.read())

    def small() -> int:
        with ThreadPoolExecutor(PARALLEL) as pool:
            return sum(pool.map(read, (f"s3://bench/small/{n:05}" for n in range(keys))))

    return {
        "list": lambda: sum(1 for _ in list_objects("s3://bench/small/", endpoint_url=endpoint)),
        "large": lambda: read("s3://bench/large"),
        "small": small,
    }


def by_boto3(endpoint: str, keys: int) -> dict[str, Task]:
    s3 = client(endpoint)

    def large() -> int:
        stream = io.BytesIO()
        s3.download_fileobj("bench", "large", stream, Config=TransferConfig(max_concurrency=4))  # type: ignore[attr-defined]
        return stream.getbuffer().nbytes

    def read(number: int) -> int:
        return len(s3.get_object(Bucket="bench", Key=f"small/{number:05}")["Body"].read())  # type: ignore[attr-defined]

    def small() -> int:
        with ThreadPoolExecutor(PARALLEL) as pool:
            return sum(pool.map(read, range(keys)))

    def listing() -> int:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix="small/")  # type: ignore[attr-defined]
        return sum(len(page.get("Contents", ())) for page in pages)

    return {"list": listing, "large": large, "small": small}


def by_s3fs(endpoint: str, keys: int) -> dict[str, Task]:
    import s3fs

    files = s3fs.S3FileSystem(client_kwargs={"endpoint_url": endpoint}, skip_instance_cache=True)

    def large() -> int:
        with files.open("bench/large") as file:
            return len(file.read())

    def listing() -> int:
        files.invalidate_cache()
        return len(files.find("bench/small"))

    def small() -> int:
        return sum(map(len, files.cat([f"bench/small/{n:05}" for n in range(keys)]).values()))

    return {"list": listing, "large": large, "small": small}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--large-mib", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=3)
    chosen = parser.parse_args()
    os.environ.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
    server, endpoint = start_server()
    try:
        urllib.request.urlopen(endpoint).close()
        large = chosen.large_mib << 20
        fill_bucket(endpoint, chosen.keys, large)
        makers = {"flambeau.data.storage": ours, "boto3": by_boto3}
        if importlib.util.find_spec("s3fs"):
            makers["s3fs"] = by_s3fs
        works = {name: make(endpoint, chosen.keys) for name, make in makers.items()}
        expected = {"list": chosen.keys, "large": large, "small": chosen.keys * SMALL}
        print("| work | client | s | CPU s | CPU over ours |\n|---|---|---|---|---|")
        for task, answer in expected.items():
            measure(task, answer, {name: tasks[task] for name, tasks in works.items()}, chosen.repetitions)
    finally:
        server.kill()
        server.wait()


def measure(task: str, answer: int, works: dict[str, Task], repetitions: int) -> None:
    best = {name: (float("inf"), float("inf")) for name in works}
    for _ in range(repetitions):
        for name, work in works.items():
            clock, processor = time.perf_counter(), time.process_time()
            assert work() == answer, (task, name)
            spent = (time.perf_counter() - clock, time.process_time() - processor)
            best[name] = (min(best[name][0], spent[0]), min(best[name][1], spent[1]))
    first = next(iter(best.values()))
    for name, (clock, processor) in best.items():
        print(f"| {task} | {name} | {clock:.2f} | {processor:.3f} | {processor / first[1]:.2f} |")


if __name__ == "__main__":
    main()
