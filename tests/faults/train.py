"""Trains nothing: saves a checkpoint at once and one on Ctrl-C, and is the only one to run."""

import fcntl
import os
import pathlib
import signal
import sys

world, store = pathlib.Path(os.environ["FAULT_WORLD"]), pathlib.Path(sys.argv[1])
only = open(world / "only", "w")  # noqa: SIM115 - held as long as this process lives
try:
    fcntl.flock(only, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    (world / "two").touch()
ledger = world / "ledger"


def save():
    """Whole before it is complete, complete before it is on the ledger."""
    step = 1 + (len(ledger.read_text().split()) if ledger.exists() else 0)
    folder = store / f"step-{step:06d}"
    try:
        folder.mkdir(parents=True)
        (folder / "weights").write_text(f"token-{step}\n" * 100)
        (folder / "COMPLETE").touch()
    except OSError as error:
        print(f"not saved: {error}", flush=True)
        return
    with ledger.open("a") as file:
        file.write(f"token-{step}\n")


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
save()
print("step 1 loss=0.5", flush=True)
signal.sigwait([signal.SIGINT])
save()
sys.exit(75)
