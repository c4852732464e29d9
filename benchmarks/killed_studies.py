"""Kills each study at moments of its run, and lets the same command go on: what was measured stays,
and the table has all of its rows.

Each study (a sweep, a search for the peak, a curve in process and to a server, engines and
precisions, speed of random weights and of an ONNX file) runs once to its end. Then it begins
anew on a folder of its own, its process is killed (SIGKILL) at a moment between start and end, and
the same command continues. Checked are: the exit code; that every run of LoadGen that had ended
before is there, unchanged; that the study has the same runs as the uninterrupted one (a search
chooses its runs by what it saw, so its own may differ); that nothing half made is left, no process
goes on, and `podium check` finds no error.

The exit code is 0 if all held, 1 otherwise.

Usage: python benchmarks/killed_studies.py [--kinds NAME,...] [--kills N] [--format text|json]
[--tiny]
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import psutil
from common.figures import hardware
from common.tiny import add_tiny_option, choose_size

ROOT: Final = Path(__file__).resolve().parents[1]
FAKES: Final = str(ROOT / "tests" / "fakes")
sys.path.insert(0, FAKES)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [FAKES, os.environ.get("PYTHONPATH")]))

from honest import serve, start, tail, wait  # noqa: E402
from honest_runs.judging import judge  # noqa: E402
from honest_runs.kinds import Kind, Place, list_kinds  # noqa: E402
from honest_runs.shared import prepare_shared  # noqa: E402

STUDIES: Final = (
    "sweep",
    "peak",
    "curve-null",
    "curve-network-null",
    "precision",
    "minigo",
    "onnx",
)
"""Names of honest runs that are studies; minigo: speed of random weights."""
SEARCHES: Final = ("peak",)
"""Studies whose runs depend on what was seen."""
GONE_S: Final = 30.0
"""In which the processes of a killed command end."""
SUMMARY: Final = "mlperf_log_summary.txt"
PARTIAL: Final = ".partial"
MOVED_ASIDE: Final = ".podium"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One study that was killed once."""

    kind: str
    after_s: float
    """Seconds from the start of the command to its end by SIGKILL."""
    of_s: float
    """Seconds of the uninterrupted command."""
    runs_before: int
    """Runs of LoadGen that had ended."""
    runs_after: int
    faults: tuple[str, ...]


def measure_kind(kind: Kind, kills: int, shared: Path, work: Path) -> list[Kill]:
    """Run a study once to its end, then once for each kill."""
    environment = {**os.environ, "PODIUM_CACHE": str(shared / "cache")}
    whole = Place(results=work / "whole", shared=shared)
    with serve(kind, whole, environment):
        prepare_study(kind, whole, environment, work)
        began_s = time.monotonic()
        code = wait(start(kind.commands(whole)[-1], environment, work / "output"))
        lasted_s = time.monotonic() - began_s
    if code != 0:
        raise SystemExit(f"{kind.name}: exit code {code}: {tail(work / 'output')}")
    expected = set(hash_finished_runs(whole.results))
    found = []
    for number in range(kills):
        place = Place(results=work / f"{number}", shared=shared)
        after_s = lasted_s * (number + 1) / (kills + 1)
        with serve(kind, place, environment):
            prepare_study(kind, place, environment, work)
            kill = kill_and_continue(kind, place, environment, expected, after_s)
        found.append(replace(kill, of_s=round(lasted_s, 1)))
        print(format_kill(found[-1]), file=sys.stderr, flush=True)
    return found


def prepare_study(kind: Kind, place: Place, environment: dict[str, str], work: Path) -> None:
    """Run the commands before the study's own: a training."""
    for words in kind.commands(place)[:-1]:
        code = wait(start(words, environment, work / "prepared"))
        if code != 0:
            raise SystemExit(f"{words[0]}: exit code {code}: {tail(work / 'prepared')}")


def kill_and_continue(
    kind: Kind, place: Place, environment: dict[str, str], expected: set[str], after_s: float
) -> Kill:
    """Kill a study's command after so many seconds, and run it again."""
    words, output = kind.commands(place)[-1], place.results.with_name("output")
    command = start(words, environment, output)
    try:
        command.wait(after_s)
        faults = ["it had ended before it was killed"]
    except subprocess.TimeoutExpired:
        faults = kill_process(command)
    before = hash_finished_runs(place.results)
    code = wait(start(words, environment, output))
    if code != 0:
        faults.append(f"exit code {code}: {tail(output)}")
    after = hash_finished_runs(place.results)
    faults += [f"{name} was measured again" for name in before if after.get(name) != before[name]]
    if kind.name not in SEARCHES and set(after) != expected:
        faults.append(f"other runs than without a kill: {sorted(set(after) ^ expected)}")
    faults += [
        f"left half made: {path.relative_to(place.results)}"
        for path in place.results.rglob(f"*{PARTIAL}")
        if MOVED_ASIDE not in path.parts
    ]
    judgement = judge(place.results, kind.judged)
    faults += [f"{each.rule}: {each.found}" for each in judgement.errors]
    if judgement.check_failed:
        faults.append(judgement.check_failed)
    return Kill(
        kind=kind.name,
        after_s=round(after_s, 1),
        of_s=0.0,
        runs_before=len(before),
        runs_after=len(after),
        faults=tuple(faults),
    )


def kill_process(command: "subprocess.Popen[bytes]") -> list[str]:
    """Kill one process, and say which of its children go on."""
    children = psutil.Process(command.pid).children(recursive=True)
    command.send_signal(signal.SIGKILL)
    command.wait()
    _, alive = psutil.wait_procs(children, GONE_S)
    for process in alive:
        process.kill()
    return [f"process {process.pid} went on" for process in alive]


def hash_finished_runs(results: Path) -> dict[str, str]:
    """Hash LoadGen's summary of each run that has ended, by its folder."""
    return {
        str(path.parent.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(results.rglob(SUMMARY))
        if MOVED_ASIDE not in path.parts and PARTIAL not in str(path.parent)
    }


def format_kill(kill: Kill) -> str:
    """Format one line."""
    return (
        f"{kill.kind:<20}{kill.after_s:>7.1f} of {kill.of_s:>5.1f} s"
        f"{kill.runs_before:>5} runs before{kill.runs_after:>5} after   "
        f"{'; '.join(kill.faults) or 'as without a kill'}"
    )


def parse_arguments() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = choose_size(",".join(STUDIES), "curve-null")
    parser.add_argument("--kinds", default=names, help=f"comma-separated (default: {names})")
    parser.add_argument("--kills", type=int, default=choose_size(5, 1), help="of each study")
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    add_tiny_option(parser)
    given = parser.parse_args()
    if unknown := set(given.kinds.split(",")) - set(STUDIES):
        parser.error(f"--kinds: unknown: {', '.join(sorted(unknown))}")
    return given


def main() -> None:
    """Kill each study, and count what went wrong."""
    given = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # children end, too
    kinds = [kind for kind in list_kinds() if kind.name in given.kinds.split(",")]
    kills: list[Kill] = []
    with tempfile.TemporaryDirectory(prefix="podium-benchmark-") as name:
        prepare_shared(Path(name) / "shared", kinds)
        for kind in kinds:
            work = Path(name) / kind.name
            work.mkdir()
            kills += measure_kind(kind, given.kills, Path(name) / "shared", work)
    print_kills(kills, given.form)
    sys.exit(any(kill.faults for kill in kills))


def print_kills(kills: Sequence[Kill], form: str) -> None:
    """Print all kills."""
    wrong = sum(bool(kill.faults) for kill in kills)
    if form == "json":
        facts = {"n": len(kills), "wrong": wrong, "hardware": hardware()}
        print(json.dumps({**facts, "kills": [asdict(kill) for kill in kills]}))
        return
    print("\n".join(map(format_kill, kills)))
    print(f"{len(kills)} kills, {wrong} with a fault; {hardware()}")


if __name__ == "__main__":
    main()
