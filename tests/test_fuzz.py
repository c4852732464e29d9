"""The fuzzer finds what it looks for, and finds nothing in the readers that there are."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"
INPUTS = 3_000


@pytest.fixture
def attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Callable[[Path], object]], BaseException | None]]:
    """Let a reader read one input under the fuzzer's eyes."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    attempts, reading = (
        import_module("fuzzing.attempts"),
        import_module("fuzzing.reading"),
    )  # no reader, and so no framework
    monkeypatch.setattr(attempts, "CPU_LIMIT_S", 0.2)
    before = signal.signal(signal.SIGPROF, attempts.too_long)
    inside = tmp_path / "inside"
    inside.mkdir()
    guard = attempts.Guard(inside)

    def run(read: Callable[[Path], object]) -> BaseException | None:
        found: BaseException | None = attempts.attempt(
            reading.Reader(name="x", file=inside / "x", seeds=[b"x"], read=read), b"y", guard
        )
        return found

    yield run
    guard.on = False
    signal.signal(signal.SIGPROF, before)


def spin(path: Path) -> None:
    while True:
        pass


def fail(path: Path) -> None:
    raise KeyError(path.read_text())


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (lambda path: path.with_name("z").write_text("z"), "None"),
        (lambda path: (path.parents[1] / "z").write_text("z"), "EscapeError"),
        (lambda path: (path.parents[1] / "z").mkdir(), "EscapeError"),
        (lambda path: (path.with_name("link")).symlink_to("/"), "EscapeError"),
        (lambda path: (path.parent / ".." / "z").unlink(), "EscapeError"),
        (lambda path: subprocess.run(["true"], check=True), "EscapeError"),
        (lambda path: sys.exit(1), "SystemExit"),
        (spin, "HangError"),
        (fail, "KeyError"),
    ],
)
def test_what_a_reader_may_not_do_is_found(
    attempt: Callable[..., BaseException | None],
    tmp_path: Path,
    read: Callable[[Path], object],
    found: str,
) -> None:
    """A fuzzer that sees nothing finds nothing."""
    begin = time.process_time()
    error = attempt(read)
    assert (
        found == type(error).__name__.replace("NoneType", "None")
        and time.process_time() - begin < 5
    )
    assert not (tmp_path / "z").exists()


@pytest.mark.slow
def test_no_reader_has_a_traceback_a_hang_or_a_write_elsewhere(tmp_path: Path) -> None:
    """Some thousand inputs; the figure that the project gives is of a million."""
    command = [
        sys.executable,
        str(BENCHMARKS / "fuzz.py"),
        "--inputs",
        str(INPUTS),
        "--seconds",
        "120",
        "--keep",
        str(tmp_path),
        "--format",
        "json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["found"] == [] and told["inputs"] > INPUTS / 4 and len(told["by_reader"]) > 40
