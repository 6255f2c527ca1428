"""A deploy as one writes it with Fabric in five minutes: ``fabric_naive.py SSH_CONFIG``."""

from __future__ import annotations

import sys

from fabric import Config, Connection

config = Config(runtime_ssh_path=sys.argv[1])
with Connection("kpro6", config=config) as kpro6:
    kpro6.put("bare.sh", "/tmp/bare.sh")
    kpro6.run("pct push 200 /tmp/bare.sh /root/bare.sh")
    kpro6.run("pct exec 200 -- sh -c 'tmux kill-session -t bare; rm -rf /root/bare-checkpoints/*'")
    kpro6.run("pct exec 200 -- tmux new-session -d -s bare 'sh /root/bare.sh'")
