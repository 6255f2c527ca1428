"""The same deploy with pyinfra."""

from __future__ import annotations

from pyinfra.operations import files, server

files.put(name="script", src="bare.sh", dest="/tmp/bare.sh", mode="755")
server.shell(name="push", commands="pct push 200 /tmp/bare.sh /root/bare.sh")
server.shell(
    name="stop and clear",
    commands="pct exec 200 -- sh -c 'tmux kill-session -t bare; rm -rf /root/bare-checkpoints/*'",
)
server.shell(
    name="start", commands="pct exec 200 -- tmux new-session -d -s bare 'sh /root/bare.sh'"
)
