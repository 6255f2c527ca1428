"""Words that leave the target: by webhook, Slack, ntfy, mail, or a command of the user's.

Nothing here raises: what could not be sent comes back as words.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from dataclasses import asdict

from dflashctl.agent.watching import Channel, Notice, Notified, Notify

HTTP_S = 10.0
COMMAND_S = 60.0
_SENDMAIL = ("sendmail", "/usr/sbin/sendmail", "/usr/lib/sendmail")
_TITLES = {
    "verdict": "{job} on {host}: {code}",
    "cleared": "{job} on {host}: {code} is over",
    "ended": "{job} on {host}: {code}",
    "restart": "{job} on {host}: restart {code}",
    "test": "{job} on {host}: a test",
}


def deliver(channel: Channel, notice: Notice) -> str | None:
    """Send it; None when it was taken, else what went wrong, without the address."""
    try:
        match channel.kind:
            case "webhook":
                return _post(channel.to[0], asdict(notice), {})
            case "slack":
                return _post(channel.to[0], {"text": text(notice)}, {})
            case "ntfy":
                grave = notice.event == "verdict" or notice.code in ("FAILED", "given_up")
                headers = {"Title": title(notice), "Tags": notice.event}
                headers["Priority"] = "high" if grave else "default"
                return _send(channel.to[0], notice.evidence.encode(), headers)
            case "email":
                return _mail(channel.to, notice)
            case "command":
                return _command(channel.to, notice)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return type(error).__name__ if isinstance(error, ValueError) else str(error)


def test(request: Notify) -> Notified:
    """A test over each channel."""
    host = socket.gethostname()
    notice = Notice(
        event="test",
        code="test",
        evidence="this way works",
        job=request.job,
        run=None,
        host=host,
        progress="",
        at=time.time(),
    )
    return Notified(problems=tuple(deliver(one, notice) or "" for one in request.channels))


def title(notice: Notice) -> str:
    """One line: which job, where, what."""
    words = {"job": notice.job, "host": notice.host, "code": notice.code.replace("_", " ")}
    return _TITLES[notice.event].format(**words)


def text(notice: Notice) -> str:
    """The title, the evidence, and how far the run was."""
    parts = [f"{title(notice)}: {notice.evidence}" if notice.evidence else title(notice)]
    parts += [notice.progress] if notice.progress else []
    return "\n".join(parts)


def _post(url: str, body: dict[str, object], headers: dict[str, str]) -> str | None:
    data = json.dumps(body).encode()
    return _send(url, data, {"Content-Type": "application/json", **headers})


def _send(url: str, data: bytes, headers: dict[str, str]) -> str | None:
    import urllib.error  # they take long to load, and few looks need them
    import urllib.request

    if not url.startswith(("http://", "https://")):
        return "not an http address"
    headers = {name: value.encode("ascii", "replace").decode() for name, value in headers.items()}
    request = urllib.request.Request(url, data, {"User-Agent": "dflashctl", **headers})  # noqa: S310 - http alone, see above
    try:
        with urllib.request.urlopen(request, timeout=HTTP_S) as answer:  # noqa: S310 - see above  # nosec B310
            answer.read(1 << 16)
    except urllib.error.HTTPError as error:
        return f"the server says {error.code} {error.reason}"
    except urllib.error.URLError as error:
        return str(error.reason)
    return None


def _mail(to: tuple[str, ...], notice: Notice) -> str | None:
    from email.message import EmailMessage

    message = EmailMessage()
    message["To"], message["Subject"] = ", ".join(to), title(notice)
    message.set_content(text(notice))
    for program in _SENDMAIL:
        try:
            return _run((program, "-t", "-i"), message.as_bytes(), {})
        except FileNotFoundError:
            continue
    return "there is no sendmail"


def _command(words: tuple[str, ...], notice: Notice) -> str | None:
    told = {
        "DFLASHCTL_EVENT": notice.event,
        "DFLASHCTL_CODE": notice.code,
        "DFLASHCTL_JOB": notice.job,
        "DFLASHCTL_TEXT": text(notice),
    }
    return _run(words, json.dumps(asdict(notice)).encode(), told)


def _run(words: tuple[str, ...], said: bytes, more: dict[str, str]) -> str | None:
    done = subprocess.run(
        words,
        input=said,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **more},
        timeout=COMMAND_S,
        check=False,
        start_new_session=True,
    )
    if done.returncode == 0:
        return None
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    return ": ".join((f"exit code {done.returncode}", *last))
