"""What the targets of one run find out about each other, before anything is planned."""

from __future__ import annotations

import secrets
from dataclasses import replace
from threading import Event as Signal
from typing import TYPE_CHECKING

from dflashctl.agent.fabric import Connect, LayMark, Listen, Listening, Marks, TakeMark
from dflashctl.errors import DflashError, HeldBack, Refusal, Refused
from dflashctl.link.fanout import each
from dflashctl.plan.steps import lives
from dflashctl.plan.together import bare_places, first_of_each_folder, no_way, places

if TYPE_CHECKING:
    from collections.abc import Callable

    from dflashctl.agent.protocol import Event
    from dflashctl.cli.reach import Agents
    from dflashctl.plan.model import Place, Sight

    Sights = tuple[Sight, ...]
    Met = tuple[Sight | DflashError, ...]

# The others have so long to come, and node 0 waits a little longer.
CONNECT_S, LISTEN_S = 5.0, 8.0


def meeting(
    verb: str, *, starts: Callable[[Sights], bool], moves: bool
) -> Callable[[Agents, Sights], Met]:
    """The meeting of a verb that starts runs: each target gets its place in the run.

    Args:
        verb: as it is typed.
        starts: whether a run is to be started, after what was seen; then it is tried out
            whether the targets reach each other.
        moves: whether checkpoints are moved; then it is looked which targets share a folder.
    """

    def meet(agents: Agents, sights: Sights) -> Met:
        if not sights or sights[0].desired.playbook.distributed is None:
            return sights
        names = sights[0].desired.nodes
        there = tuple(one.target for one in sights)
        missing = tuple(name for name in names if name not in there)
        if missing:
            return tuple(
                HeldBack(target=name, verb=verb, against=missing, ready=there) for name in there
            )
        met = _placed(sights, places(sights))
        whole = tuple(one for one in met if not isinstance(one, DflashError))
        if len(whole) < len(met) or len(whole) == 1:
            return met
        if starts(whole):
            met = _tried(agents, whole)
        whole = tuple(one for one in met if not isinstance(one, DflashError))
        return _with_folders(agents, whole) if moves and len(whole) == len(met) else met

    return meet


def none_lives(sights: Sights) -> bool:
    """Whether the job runs on none of them."""
    return not any(lives(one.seen) for one in sights)


def folders_only(agents: Agents, sights: Sights) -> Met:
    """The meeting of a verb that moves checkpoints and starts nothing."""
    if not sights or sights[0].desired.playbook.distributed is None:
        return sights
    placed = _placed(sights, bare_places(sights))
    whole = tuple(one for one in placed if not isinstance(one, DflashError))
    return _with_folders(agents, whole)


def _placed(sights: Sights, found: tuple[Place | Refusal, ...]) -> Met:
    return tuple(
        Refused(target=one.target, refusals=(place,))
        if isinstance(place, Refusal)
        else replace(one, desired=replace(one.desired, place=place))
        for one, place in zip(sights, found, strict=True)
    )


def _place(sight: Sight) -> Place:
    assert sight.desired.place is not None, "it was given one"
    return sight.desired.place


def _tried(agents: Agents, sights: Sights) -> Met:
    """Every target goes to node 0's port once, with a word that is good for this once."""
    token, open_ = secrets.token_hex(16), Signal()
    port: list[int] = []

    def tell(event: Event) -> None:
        if isinstance(event, Listening):
            port.append(event.port)
            open_.set()

    def go(sight: Sight) -> str | None:
        place, agent = _place(sight), agents.at(sight.desired.target)
        node = place.node
        assert node.master is not None, "there are several targets"
        assert node.address is not None, "there are several targets"
        if node.rank == 0:
            try:
                agent.listen(_listen(sight, node.address, token, len(sights) - 1), tell)
            finally:
                open_.set()
            return None
        open_.wait(LISTEN_S)
        if not port:
            return None  # node 0 has more to say of it
        answer = agent.connect(
            Connect(
                address=node.master,
                port=port[0],
                token=token,
                source=node.address,
                wait_s=CONNECT_S,
            )
        )
        return answer if isinstance(answer, str) else None

    ended = each(sights, go, at_once=len(sights))
    lead = _place(sights[0])
    return tuple(
        one
        if reason is None
        else reason
        if isinstance(reason, DflashError)
        else Refused(target=one.target, refusals=(no_way(lead, _place(one), reason),))
        for one, reason in zip(sights, ended, strict=True)
    )


def _listen(sight: Sight, address: str, token: str, others: int) -> Listen:
    playbook = sight.desired.playbook
    return Listen(
        job=playbook.name,
        session=playbook.session,
        tmux_socket=sight.desired.target.tmux_socket,
        address=address,
        port=_place(sight).node.port,
        token=token,
        others=others,
        wait_s=LISTEN_S,
    )


def _with_folders(agents: Agents, sights: Sights) -> Met:
    """The sights, with the target that has the very same folder of checkpoints before them."""
    spec = sights[0].desired.playbook.checkpoints
    if spec is None or len(sights) == 1:
        return sights
    token = secrets.token_hex(16)

    def lay(sight: Sight) -> Marks:
        rank = _place(sight).node.rank
        return agents.at(sight.desired.target).mark(
            LayMark(folder=spec.path, token=token, rank=rank)
        )

    def take(sight: Sight) -> Marks:
        rank = _place(sight).node.rank
        return agents.at(sight.desired.target).mark(
            TakeMark(folder=spec.path, token=token, rank=rank)
        )

    each(sights, lay)
    seen = each(sights, take)
    first = first_of_each_folder(
        {
            _place(one).node.rank: () if isinstance(marks, DflashError) else marks.ranks
            for one, marks in zip(sights, seen, strict=True)
        }
    )
    return tuple(
        marks if isinstance(marks, DflashError) else _kept(one, first[_place(one).node.rank])
        for one, marks in zip(sights, seen, strict=True)
    )


def _kept(sight: Sight, rank: int) -> Sight:
    place = _place(sight)
    if rank == place.node.rank:
        return sight
    place = replace(place, kept_at=place.node.names[rank])
    return replace(sight, desired=replace(sight.desired, place=place))
