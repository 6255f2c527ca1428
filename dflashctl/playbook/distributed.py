"""One run over several targets: the playbook's ``distributed``, and what goes against it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dflashctl.document.read import mapping
from dflashctl.playbook.model import DistributedSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dflashctl.document.read import Document, Loc
    from dflashctl.errors import Fault
    from dflashctl.playbook import schema

# What torchrun sets for each process.
_ITS_OWN = frozenset(
    ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE",
     "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE")
)  # fmt: skip


def faults(document: Document) -> Iterator[Fault]:
    """Fields that torchrun leaves no room for."""
    said = mapping(document.values.get("distributed"))
    if not said:
        return
    if said.get("min_nodes") is not None and said.get("rendezvous") != "c10d":
        message = "goes with `rendezvous: c10d` only: a static one waits for every target"
        yield document.fault(("distributed", "min_nodes"), message)
    restarts = said.get("max_restarts")
    if isinstance(restarts, int) and restarts > 0 and said.get("rendezvous") != "c10d":
        message = (
            "goes with `rendezvous: c10d` only: with a static one torchrun's processes would look"
            " for each other at the addresses of those that have gone"
        )
        yield document.fault(("distributed", "max_restarts"), message)
    if document.values.get("on_partial") == "rollback":
        message = (
            "one run over several targets cannot go back on some of them: `stop`, which is what"
            " happens where nothing is said, or `keep`"
        )
        yield document.fault(("on_partial",), message)
    run = mapping(document.values.get("run"))
    for field in ("command", "resume", "resume_new_buckets"):
        words = run.get(field)
        if isinstance(words, list) and _launches(words):
            message = "names what torchrun is to start, not torchrun: `distributed` starts that"
            yield document.fault(("run", field), message)
    for name in mapping(run.get("env")):
        if name in _ITS_OWN or str(name).startswith(("PET_", "TORCHELASTIC_")):
            loc: Loc = ("run", "env", str(name))
            yield document.fault(loc, "is torchrun's own, and `distributed` is set")
    if mapping(document.values.get("watch")).get("restart") == "on-failure":
        message = (
            "is for a run on one target: a watchdog cannot start the others again with it;"
            " `distributed.max_restarts` has torchrun do it"
        )
        yield document.fault(("watch", "restart"), message)


def _launches(words: list[object]) -> bool:
    """Whether these words run torchrun themselves."""
    names = [str(word).rpartition("/")[2] for word in words[:3]]
    return any(re.fullmatch(r"torchrun|torch\.distributed\.(run|launch)", name) for name in names)


def spec_of(said: schema.Distributed) -> DistributedSpec:
    """The schema's values as the model has them."""
    return DistributedSpec(**said.model_dump(exclude={"launcher"}))
