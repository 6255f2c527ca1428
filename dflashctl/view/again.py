"""Further commands for the same job, as one types them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

_RUNS = r"runs(?: (?:list|show|diff))?"
_CHECKPOINTS = r"checkpoints (?:list|clear|archive|restore|prune|verify|pull)"
_INVENTORY = r"inventory (?:show|check|discover|trust)"
# Which verbs take which options; the longest name first, where one begins another.
_OF_A_JOB = (
    "deploy|doctor|status|attach|logs|metrics|compare|notify|stop|start|optimize-buckets|rollback|"
    f"{_RUNS}|{_CHECKPOINTS}"
)
_OF_A_TARGET = "play|exec|shell|inventory check"
# Which of them take one target only.
_OF_ONE = "attach|shell|checkpoints pull"
_COMMAND = re.compile(
    rf"\bdflashctl (?P<verb>{_OF_A_JOB}|{_OF_A_TARGET}|{_INVENTORY})(?![\w-])"
    r"(?P<rest>(?:(?![.;:,)](?:\s|$)).)*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """The options that lead to the same job on the same targets once more.

    ``targets``: as they were typed; empty where none was, as the default one is meant.
    ``everything``: ``--all`` was typed.
    """

    targets: tuple[str, ...] = ()
    everything: bool = False
    inventory: str | None = None
    playbook: str | None = None

    def typed(self, *verb: str) -> str:
        """A command with them, as one types it."""
        return shlex.join(("dflashctl", *self._before, *verb, *self._at, *self._with))

    def repeated_in(self, text: str) -> str:
        """The text, each command in it with those of the options that it takes and lacks."""
        return _COMMAND.sub(self._completed, text)

    @property
    def _before(self) -> tuple[str, ...]:
        return ("-i", self.inventory) if self.inventory else ()

    @property
    def _at(self) -> tuple[str, ...]:
        if self.everything:
            return ("--all",)
        return tuple(word for name in self.targets for word in ("-t", name))

    @property
    def _with(self) -> tuple[str, ...]:
        return ("-p", self.playbook) if self.playbook else ()

    def _completed(self, found: re.Match[str]) -> str:
        verb, rest = found["verb"], found["rest"]
        own = rest.partition(" -- ")[0]  # what follows is another program's
        more: tuple[str, ...] = ()
        named = " -t " in own or " --all" in own
        several = self.everything or len(self.targets) > 1
        if (
            not named
            and re.fullmatch(f"{_OF_A_JOB}|{_OF_A_TARGET}", verb)
            and not (several and re.fullmatch(_OF_ONE, verb))
        ):
            more += self._at
        if " -p " not in own and re.fullmatch(_OF_A_JOB, verb):
            more += self._with
        words = shlex.join(("dflashctl", *self._before, *verb.split(), *more))
        # What follows may hold a command of its own: `stop; or dflashctl deploy`.
        return words + self.repeated_in(rest)
