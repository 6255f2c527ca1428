"""Additions to a hand-written inventory: each line that was there stays as it was."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dflashctl.errors import BadFile, CannotWrite
from dflashctl.inventory.load import load_inventory
from dflashctl.inventory.write import (
    add_containers,
    add_host,
    hosts_block,
    replace_file,
    scalar,
)

HERE = Path("hosts.yml")
EXAMPLE = Path(__file__).parents[2] / "inventory" / "hosts.yml"
NEW = {"extra": {"vmid": 300, "gpus": 2}}
HOST: dict[str, Any] = {"address": "192.0.2.9", "containers": {"one": {"vmid": 100}}}


def is_within(before: str, after: str) -> bool:
    """Whether every line of one is in the other, in that order."""
    lines = iter(after.splitlines())
    return all(line in lines for line in before.splitlines())


def test_the_example_gets_a_container_and_a_host_and_keeps_every_line(tmp_path: Path):
    before = EXAMPLE.read_text()
    after = add_host(HERE, add_containers(HERE, before, "kpro6", NEW), "kpro7", HOST)
    assert is_within(before, after)
    path = tmp_path / "hosts.yml"
    path.write_text(after)
    names = [target.name for target in load_inventory(path).targets]
    old = ["kpro6", "kpro6/dflash", "kpro6/eval"]
    assert names == [*old, "kpro6/extra", "here", "kpro7", "kpro7/one"]


@pytest.mark.parametrize(
    "text",
    [
        "hosts: {a: {address: b}}\n",
        "hosts: {a: {address: b}, }\n",
        "hosts:\n  a: {address: b, containers: {}} # a comment\n",
        "hosts:\n  a: {address: b, containers: {x: {vmid: 100}}}\n",
        "hosts:\n  a:\n    address: b # no newline at the end",
        "hosts:\n   a:\n      containers:\n         x:\n            vmid: 100 # deep\n\n# end\n",
        "hosts:\r\n  a:\r\n    address: b\r\ngroups: {}\r\n",
        "hosts:\n  a:\n    containers:\n      x: {vmid: 1,\n        gpus: 8} # two\n    port: 2\n",
    ],
)
def test_every_style_of_writing_can_be_added_to(text: str):
    wanted = yaml.safe_load(text)
    wanted["hosts"]["a"].setdefault("containers", {}).update(NEW)
    after = add_containers(HERE, text, "a", NEW)
    assert yaml.safe_load(after) == wanted
    comments = [part.split("\n")[0] for part in text.split("#")[1:]]
    assert all(comment in after for comment in comments)
    assert ("\r\n" in after) == ("\r\n" in text)
    assert "\n" not in after.replace("\r\n", "") or "\r\n" not in text


def test_what_two_hosts_share_is_not_added_to_both():
    text = "hosts:\n  a:\n    address: b\n    containers: &c {x: {vmid: 100}}\n"
    text += "  d:\n    address: e\n    containers: *c\n"
    with pytest.raises(BadFile, match="bad_file"):
        add_containers(HERE, text, "d", NEW)


NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True)
COMMENTS = st.sampled_from(["", "  # why", "\n# above"])


@settings(max_examples=20)  # PyYAML reads each file several times
@given(
    st.dictionaries(NAMES, st.lists(st.tuples(NAMES, COMMENTS), unique_by=lambda one: one[0])),
    st.sampled_from([2, 4]),
    st.data(),
)
def test_additions_touch_nothing_else(
    hosts: dict[str, list[tuple[str, str]]], step: int, data: st.DataObject
):
    if not hosts:
        return
    lines = ["# first", "hosts:"]
    vmid = itertools.count(100)
    for host, containers in hosts.items():
        lines += [f"{' ' * step}{host!r}:", f"{' ' * 2 * step}address: x # {host}"]
        if containers:
            lines.append(f"{' ' * 2 * step}containers:")
        for name, comment in containers:
            lines += f"{' ' * 3 * step}{name!r}: {{vmid: {next(vmid)}}}{comment}".splitlines()
    text = "\n".join([*lines, "# last", ""])
    host = data.draw(st.sampled_from(sorted(hosts)))
    wanted = yaml.safe_load(text)
    wanted["hosts"][host].setdefault("containers", {}).update(NEW)
    wanted["hosts"]["NEW"] = HOST
    after = add_host(HERE, add_containers(HERE, text, host, NEW), "NEW", HOST)
    assert is_within(text, after)
    assert yaml.safe_load(after) == wanted


@given(st.text())
def test_a_word_is_written_so_that_it_is_read_back(text: str):
    assert yaml.safe_load(f"{{word: {scalar(text)}}}") == {"word": text}


def test_a_host_to_paste_is_an_inventory_of_its_own(tmp_path: Path):
    path = tmp_path / "hosts.yml"
    path.write_text("version: 1\n" + hosts_block("kpro7", HOST))
    assert [one.name for one in load_inventory(path).targets] == ["kpro7", "kpro7/one"]


@pytest.mark.provokes("cannot_write")
def test_a_file_keeps_its_mode_and_its_mark_and_a_link_stays_one(tmp_path: Path):
    real, link = tmp_path / "real.yml", tmp_path / "hosts.yml"
    real.write_bytes(b"\xef\xbb\xbfversion: 1\n")
    real.chmod(0o640)
    link.symlink_to(real)
    replace_file(link, "version: 2\n")
    assert real.read_bytes() == b"\xef\xbb\xbfversion: 2\n"
    assert real.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    with pytest.raises(CannotWrite):
        replace_file(tmp_path / "no" / "hosts.yml", "")
