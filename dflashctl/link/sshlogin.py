"""Logging in without a wait where nothing depends on the answer.

The request for the login service, the login itself and, where it is sure to succeed, the
request for a first session go out one behind the other. RFC 4252 (5.3) has a server hand on
what follows a login that succeeded; it saves two round trips of three.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from paramiko import Message
from paramiko.auth_handler import AuthOnlyHandler
from paramiko.common import cMSG_SERVICE_REQUEST, cMSG_USERAUTH_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable

    import paramiko
    from paramiko import Transport


def service_request() -> Message:
    """The message that asks for the login service."""
    message = Message()
    message.add_byte(cMSG_SERVICE_REQUEST)
    message.add_string("ssh-userauth")
    return message


class Login(AuthOnlyHandler):
    """Paramiko's, which is ready for the answer only after it has sent the question."""

    def __init__(self, transport: Transport, sent: Callable[[], None]) -> None:
        """``sent`` is called when a request has been sent, before its answer is waited for."""
        super().__init__(transport)
        self._sent = sent

    def send_auth_request(
        self,
        username: str,
        method: str,
        finish_message: Callable[[Message], None] | None = None,
    ) -> list[str]:
        """Send a request and wait for its answer: what is also wanted; empty: we are in."""
        message = Message()
        message.add_byte(cMSG_USERAUTH_REQUEST)
        for word in (username, "ssh-connection", method):
            message.add_string(word)
        if finish_message is not None:
            finish_message(message)
        # The answer may be there before the next line is reached.
        self.auth_method, self.username = method, username
        self.auth_event = event = threading.Event()
        transport: Any = self.transport  # Paramiko's own sending is not in its stubs
        with transport.lock:
            transport._send_message(message)
        self._sent()
        return self.wait_for_response(event)


class Foreseen:
    """A session that is asked for now and awaited later."""

    def __init__(self, ask: Callable[[], paramiko.Channel]) -> None:
        self._ask = ask
        self._channel: paramiko.Channel | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._wait, name="first session", daemon=True)
        self._thread.start()

    def channel(self) -> paramiko.Channel:
        """The session's channel. Raises what asking for it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._channel is not None, "there is an error, or a channel"
        return self._channel

    def _wait(self) -> None:
        try:
            self._channel = self._ask()
        except Exception as error:  # raised where it is waited for
            self._error = error
