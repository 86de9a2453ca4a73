"""Logs of CloudWatch, read event by event."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from flambeau.launch.errors import LogsUnavailable, SchedulerError

__all__ = ["aws_client", "events", "refusals", "tag_values", "to_millis"]

_EVERY_S = 1.0


def aws_client(service: str) -> Any:
    """A client of boto3.

    Raises:
        SchedulerError: no region or profile is configured.
    """
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        return boto3.client(service)
    except BotoCoreError as error:
        raise SchedulerError(f"AWS: {error} `aws configure`, or AWS_DEFAULT_REGION, say which is meant.") from None


class refusals:
    """A block whose failures at AWS become one line.

    Args:
        what: that was asked for.

    Raises:
        SchedulerError: AWS refuses, or cannot be reached.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        if isinstance(error, ClientError):
            about = error.response.get("Error", {})
            raise SchedulerError(f"{self._what}: AWS refuses: {about.get('Code')}: {about.get('Message')}") from None
        if isinstance(error, BotoCoreError):
            raise SchedulerError(f"{self._what}: AWS cannot be asked: {error}") from None


def tag_values(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags with values that AWS takes: at most 256 characters, `-` for those it refuses."""
    return {name: re.sub(r"[^a-zA-Z0-9 _.:/=+@%-]", "-", value)[:256] for name, value in tags.items()}


def to_millis(moment: datetime | None) -> int | None:
    """Milliseconds since the epoch, as CloudWatch counts."""
    return None if moment is None else int(moment.timestamp() * 1000)


def events(
    client: Any,
    group: str,
    stream: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    has_ended: Callable[[], bool] = lambda: True,
) -> Iterator[str]:
    """The lines of a stream, with their ends, until its writer has ended.

    Args:
        client: of CloudWatch's logs.
        group: of streams.
        stream: in the group.
        since: time of the first event.
        until: time after the last one.
        has_ended: whether nothing more will be written.

    Raises:
        LogsUnavailable: there is no such stream, or none any more.
        SchedulerError: AWS cannot be asked.
    """
    options: dict[str, Any] = {"logGroupName": group, "logStreamName": stream, "startFromHead": True}
    if since is not None:
        options["startTime"] = to_millis(since)
    if until is not None:
        options["endTime"] = to_millis(until)
    token: str | None = None
    while True:
        ended = has_ended()
        answer = _page(client, {**options, **({"nextToken": token} if token else {})})
        for event in answer["events"]:
            message = str(event["message"])
            yield message if message.endswith("\n") else f"{message}\n"
        # At its end a stream gives the same token again.
        if answer["nextForwardToken"] == token:
            if ended:
                return
            time.sleep(_EVERY_S)
        token = answer["nextForwardToken"]


def _page(client: Any, options: dict[str, Any]) -> Any:
    with refusals(f"logs {options['logGroupName']}/{options['logStreamName']}"):
        try:
            return client.get_log_events(**options)
        except client.exceptions.ResourceNotFoundException:
            raise LogsUnavailable(
                f"CloudWatch has no stream {options['logStreamName']} in {options['logGroupName']}: the job has not "
                "started, or its logs were removed."
            ) from None
