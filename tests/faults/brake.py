"""Runs the agent, and halts it at a moment that a test has chosen: its interpreter there.

``python3 brake.py <words of the agent's interpreter>``. Beside it, ``moment.json`` says where:
``{"fact": 3}`` just before the journal's fourth fact, ``{"call": 17}`` just before the agent
changes something for the 18th time (opens a file to write, renames, removes, starts a
program, takes a lock). With ``"kill": true`` it is killed there. Else it says its pid in
``reached``, and goes on once there is ``go``. How many calls there were in all, it says in
``count``. A number of seconds in ``clock`` sets the agent's clock by so much.
"""

import os
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 30.0
CHANGES = {
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate",
    "os.chmod", "os.chown", "os.utime", "os.kill", "subprocess.Popen", "fcntl.flock",
}  # fmt: skip
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Brake:
    """Counts what the agent does in its main thread."""

    def __init__(self, moment):
        self.moment = moment
        self.calls = self.facts = 0
        self.busy = self.spent = False

    def hook(self, event, words):
        if self.busy or threading.current_thread() is not threading.main_thread():
            return
        here = self.moment.get("call") == self.calls
        if event == "open":
            path, flags = str(words[0]), words[2] or 0
            if not flags & WRITES or "__pycache__" in path or path == os.devnull:
                return
            if path.endswith(".jsonl") and flags & os.O_APPEND and "/journal/" in path:
                here = here or self.moment.get("fact") == self.facts
                self.facts += 1
        elif event not in CHANGES:
            return
        self.calls += 1
        if here and not self.spent:
            self.busy = self.spent = True
            self.halt()
            self.busy = False

    def halt(self):
        try:
            os.rename(HERE + "/moment.json", HERE + "/moment.spent")
        except OSError:
            return  # another agent was here
        with open(HERE + "/reached.new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(HERE + "/reached.new", HERE + "/reached")
        if self.moment.get("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        until = time.monotonic() + PATIENCE_S
        while not os.path.exists(HERE + "/go") and time.monotonic() < until:
            time.sleep(0.004)


def set_clock():
    try:
        with open(HERE + "/clock") as file:
            shift = float(file.read())
    except OSError:
        return
    real = time.time
    time.time = lambda: real() + shift


def main(words):
    import json

    set_clock()

    code = words[words.index("-c") + 1]
    sys.argv = ["-c", *words[words.index("-c") + 2 :]]
    try:
        with open(HERE + "/moment.json") as file:
            brake = Brake(json.load(file))
        sys.addaudithook(brake.hook)
    except OSError:
        brake = None
    try:
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    finally:
        if brake is not None and brake.facts:
            brake.busy = True
            with open(HERE + "/count", "w") as file:
                file.write(f"{brake.facts} {brake.calls}")


if __name__ == "__main__":
    main(sys.argv[1:])
