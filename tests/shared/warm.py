"""An interpreter that has loaded what runs need, and forks itself for each of them: loading PyTorch
takes longer than a short run.

A fork is a process like any other: a session of its own, environment, standard streams, exit code;
it may be killed.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

POLL_S = 0.02
LIMIT_S = 540.0
"""For a command that is run to its end."""
ENGINES = (
    "harness.engines.onnx.engine",
    "extras.tensorflow.engine",
    "extras.tensorrt.engine",
)
RUN = (
    "harness.commands.train",
    "harness.commands.infer",
    "harness.training.run_set",
    "harness.serving.infer",
    "harness.serving.loadgen.session",
    "psutil",
    *ENGINES,
)
"""What podium loads to train and to serve, of whatever workload: no framework."""
JUDGE = (
    "compliance.commands",
    "compliance.cli",
    "compliance.kinds.podium.layout",
    "compliance.reports.text",
    "compliance.schemas",
)
COMMANDS = (
    *RUN,
    *JUDGE,
    "submissions.commands.run",
    "submissions.commands.report",
    "submissions.campaign.run",
    "submissions.report.command",
    "submissions.report.page",
    "forked",
)
"""The same of its other commands, and of processes that LoadGen runs in."""
TORCH_RUN = (*RUN, "harness.engines.torch", "numpy.random", "torch.utils.serialization")
"""The same of a run in PyTorch."""


class Warm:
    """That interpreter, as tests see it; it ends with them."""

    def __init__(self, *modules: str, env: Mapping[str, str] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self._count = 0

    def start(
        self, words: Sequence[str], env: Mapping[str, str] | None = None, launcher: str = ""
    ) -> "Child":
        """Start podium with these words, or the module whose function `launch` takes them."""
        self._count += 1
        out, err = (Path(self._folder.name, f"{self._count}.{name}") for name in ("out", "err"))
        around = {
            "env": dict(os.environ if env is None else env),
            "cwd": str(Path.cwd()),
            "out": str(out),
            "err": str(err),
        }
        pid = self.ask({"words": list(words), "launcher": launcher, **around})
        return Child(self, pid, out, err)

    def run(
        self, words: Sequence[object], env: Mapping[str, str] | None = None, launcher: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """Run podium with these words to its end."""
        command = list(map(str, words))
        child = self.start(command, env, launcher)
        out, err = child.communicate(LIMIT_S)
        assert child.returncode is not None
        return subprocess.CompletedProcess(command, child.returncode, out, err)

    def ask(self, request: Mapping[str, Any]) -> Any:
        """Have something done."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """Let it go."""
        self._process.communicate()
        self._folder.cleanup()


@dataclass
class Child:
    """What `subprocess.Popen` is for other processes."""

    warm: Warm
    pid: int
    out: Path
    err: Path
    returncode: int | None = field(default=None, init=False)

    def poll(self) -> int | None:
        """Give the exit code, if it has ended."""
        if self.returncode is None:
            self.returncode = self.warm.ask({"poll": self.pid})
        return self.returncode

    def communicate(self, timeout: float = 600.0) -> tuple[str, str]:
        """Wait for its end; what it printed."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError(f"it went on: {self.err.read_text()}")
            time.sleep(POLL_S)
        return self.out.read_text(), self.err.read_text()

    def wait(self, timeout: float = 600.0) -> int | None:
        """Wait for its end; its exit code."""
        self.communicate(timeout)
        return self.returncode

    def kill(self) -> None:
        """End it by force."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def serve(modules: Sequence[str]) -> None:
    """Load modules, and fork for whoever asks."""
    from suite import registry
    from suite.process import garbage

    garbage.reduce_garbage_collection()
    for module in modules:
        import_module(module)
    registry.load_round()
    if rules := sys.modules.get("compliance.rules"):
        # the judge loads its rules when it is asked
        rules.load_rules(registry.load_round_kind(registry.DEFAULT_ROUND).name)
    if page := sys.modules.get("submissions.report.page"):
        # compiled once, not by each campaign
        page.build_template_environment("submissions.report").get_template(page.REPORT_TEMPLATE)
    # a fork would neither have nor see them
    assert threading.active_count() == 1, threading.enumerate()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        if "poll" in request:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            print(json.dumps(os.waitstatus_to_exitcode(status) if pid else None), flush=True)
        elif pid := os.fork():
            print(pid, flush=True)
        else:
            be(**request)


def be(
    words: Sequence[str], launcher: str, env: Mapping[str, str], cwd: str, out: str, err: str
) -> None:
    """Become `python -m harness`, or that launcher."""
    os.setsid()
    for number, path in enumerate((os.devnull, out, err)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    if launcher:
        import_module(launcher).launch(list(words))
        sys.exit()
    from harness import __file__ as package
    from suite.cli import main

    sys.argv = [str(Path(package).with_name("__main__.py")), *words]
    main()


if __name__ == "__main__":
    serve(sys.argv[1:])
