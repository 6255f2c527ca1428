"""What can go wrong with checkpoints and archives, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflashctl.view import figures

if TYPE_CHECKING:
    from dflashctl.errors import Unverified

WHOLE = "The checkpoints are where they were."


def of_the_store(error: Unverified) -> tuple[str, str] | None:  # noqa: PLR0911 - one a failure
    """What happened, and what to do; None for a failure of another kind."""
    path = _get(error, "path")
    match error.failure:
        case "archive_exists":
            return (
                f"there is an archive {path} already.",
                f"{WHOLE} Choose another name, or leave it out.",
            )
        case "no_such_archive":
            return (
                f"there is no whole archive {path}.",
                "Those that there are: dflashctl checkpoints list",
            )
        case "no_such_clearing":
            return (
                f"of {path} no clearing {_get(error, 'id')} is kept any more.",
                "What there is: dflashctl checkpoints list",
            )
        case "odd_file":
            return (
                f"{path} is a device, a socket or a pipe, which no archive can hold.",
                f"{WHOLE} Move it out of the checkpoint.",
            )
        case "changed":
            return (
                f"{path} changed or went away while it was archived.",
                f"{WHOLE} Say in checkpoints.complete_when how a complete one is told.",
            )
        case "in_use":
            return (
                f"a run is using the checkpoints (pids {_get(error, 'pids')}).",
                f"{WHOLE} Stop it first: dflashctl stop",
            )
        case "not_empty":
            return (
                f"{path} is not empty.",
                "Name a folder that is not there yet, or an empty one, with --to.",
            )
        case "newest":
            return (
                f"{path} is the newest complete checkpoint by now, and is never deleted.",
                "Nothing was deleted. Plan again: dflashctl checkpoints prune --dry-run",
            )
        case "no_archive_to":
            return (
                f"nothing says where archives of {path} go.",
                "Set checkpoints.archive_to in the playbook.",
            )
        case _:
            return _of_its_data(error, path)


def _of_its_data(error: Unverified, path: str) -> tuple[str, str] | None:
    """What is in an archive, and the programs that read and write it."""
    match error.failure:
        case "no_zstd":
            return (
                f"{path} is compressed, and there is no zstd program over there.",
                "Install it there (Debian: apt install zstd).",
            )
        case "damaged":
            return (
                f"the archive is damaged: {path} {_get(error, 'reason')}.",
                "Nothing was replaced or deleted. Take another archive: dflashctl checkpoints list",
            )
        case "stream_failed":
            return (
                f"tar, zstd or cp failed at {path} (exit codes {_get(error, 'codes')}).",
                f"{WHOLE} Can the user we arrive as read all of it?",
            )
        case _:
            return None


def _get(error: Unverified, name: str) -> str:
    value = error.detail.get(name)
    return figures.UNKNOWN if value is None else str(value)
