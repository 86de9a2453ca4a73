"""Commands by name, which are carried out one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flambeau.rl._comm.mailbox import Mailbox, MailboxClient, MailboxPeerClosedError

__all__ = ["CommandChannel", "CommandClient", "CommandRequest"]


@dataclass(frozen=True)
class CommandRequest:
    """A command that was received.

    Args:
        verb: its name.
        payload: what comes with it.
        callback: whom to answer.
    """

    verb: str
    payload: Any
    callback: tuple[int, int]


class CommandClient:
    """Gives commands. It can be sent to another process.

    Args:
        mailbox_client: what carries them.
    """

    def __init__(self, mailbox_client: MailboxClient) -> None:
        self._client = mailbox_client

    def call(self, verb: str, payload: Any = None, *, timeout: float | None = None) -> Any:
        """Give a command, and wait for what comes of it.

        Args:
            verb: its name.
            payload: what comes with it.
            timeout: seconds to wait; None for no end.

        Raises:
            queue.Empty: no answer came in time; also a `TimeoutError`.
            MailboxPeerClosedError: the other side has ended.
        """
        return self._client((verb, payload), timeout)


class CommandChannel:
    """Receives commands, and answers them.

    Args:
        mailbox: what carries them.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._closed = False

    def client(self) -> CommandClient:
        """A new client.

        Raises:
            RuntimeError: the channel is closed.
        """
        if self._closed:
            raise RuntimeError("the command channel is closed; it has no new clients.")
        return CommandClient(self._mailbox.client())

    def receive(self, timeout: float | None = None) -> CommandRequest | None:
        """The next command; None where there is none within `timeout` seconds, which is None for no end."""
        while True:
            payloads, callbacks, _ = self._mailbox.drain(1)
            if payloads:
                verb, payload = payloads[0]
                return CommandRequest(verb, payload, callbacks[0])
            if timeout is not None and timeout <= 0:
                return None
            self._mailbox.wait_for_work(3600.0 if timeout is None else timeout)
            timeout = None if timeout is None else 0.0

    def resolve(self, request: CommandRequest, result: Any) -> None:
        """Answer a command."""
        self._mailbox.resolve(request.callback, result)

    def reject(self, request: CommandRequest, error: BaseException) -> None:
        """Let a command fail."""
        self._mailbox.reject(request.callback, error)

    def close(self, error: BaseException | None = None) -> None:
        """Let commands that wait fail, and give out no more clients.

        Args:
            error: what their senders get; default: a `MailboxPeerClosedError`.
        """
        self._closed = True
        if error is None:
            error = MailboxPeerClosedError("the command channel was closed before the command was carried out.")
        while callbacks := self._mailbox.drain(64)[1]:
            for callback in callbacks:
                self._mailbox.reject(callback, error)
