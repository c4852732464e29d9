"""Counts accusations: runs of podium that are honest, on a machine that is not quiet, and that the
judge calls broken all the same.

Each run is a command of podium on a folder of its own: all scenarios of each workload (random
weights in small networks, and the workload for tests as a null model), curves in process and over
a network, studies. Beside it go 0, 2 or 8 busy loops; processes of it are stopped for 50 ms to 2 s
now and then; the wall clock is set once. `podium check --format json` judges what it
leaves. An accusation is an error about a run that LoadGen calls VALID, or another error than
LoadGen's own about an INVALID one. Warnings whose advice is for somebody who has changed a file
are counted apart, as wrong words.

--runs counts runs of LoadGen. With --out FILE each command adds a line to the file, and the same
command goes on where the file ends. --keep DIR keeps the folder of each accused command, and a list
of them, LIST.md. The exit
code is 0 if nobody was accused, 1 otherwise.

Usage: python benchmarks/honest.py [--runs N] [--kinds NAME,...] [--loads 0,2,8] [--seed N]
[--out FILE] [--keep DIR] [--format text|json] [--tiny]
"""

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).resolve().parents[1]
FAKES: Final = str(ROOT / "tests" / "fakes")
sys.path.insert(0, FAKES)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [FAKES, os.environ.get("PYTHONPATH")]))

from honest_runs.disturbances import (  # noqa: E402
    Disturbance,
    WallClock,
    build_environment,
    disturb,
    keep_busy,
)
from honest_runs.judging import Judgement, judge, list_summaries, read_loadgen_run  # noqa: E402
from honest_runs.kinds import Kind, Place, list_kinds  # noqa: E402
from honest_runs.shared import prepare_shared  # noqa: E402

from harness.machine.system_description import read_cpu_model  # noqa: E402

Command = subprocess.Popen[bytes]
LIMIT_S: Final = 240.0
"""For one command: what takes longer on a crowded machine is ended, and counted as such."""
READY_S: Final = 120.0
SERVES: Final = "Ctrl-C ends it"
"""What a server prints when it serves."""
LIST_FILE: Final = "LIST.md"
LINES: Final = 12


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file: one kind of run, once."""

    number: int
    kind: str
    model: str
    load: str
    commit: str
    seconds: float
    commands: list[str]
    codes: list[int | None]
    """Exit codes of the commands; null: it took too long and was ended."""
    said: str
    """Last lines of a command that failed."""
    disturbed: list[str]
    judgement: Judgement

    @property
    def accused(self) -> bool:
        """Whether the judge called an honest run broken."""
        return bool(self.judgement.errors or self.judgement.check_failed)

    @property
    def reason(self) -> str:
        """Why a command ended without its results, where no run of LoadGen is INVALID."""
        if None in self.codes:
            return f"took over {LIMIT_S:g} s"
        if not any(self.codes) or any(not each.valid for each in self.judgement.runs):
            return ""
        return self.said.strip().splitlines()[-1] if self.said.strip() else "no word"


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """What is asked for, and what all runs share."""

    seed: int
    kinds: Sequence[Kind]
    disturbances: Sequence[Disturbance]
    shared: Path
    clock: WallClock
    keep: Path | None
    brief: bool
    commit: str = field(default_factory=lambda: read_commit())

    def choose(self, number: int) -> tuple[Kind, Disturbance]:
        """Choose the kind and load of a run: all pairs come before one comes again."""
        pairs = list(itertools.product(self.kinds, self.disturbances))
        turn, place = divmod(number, len(pairs))
        random.Random(f"{self.seed} {turn}").shuffle(pairs)
        return pairs[place]


def read_commit() -> str:
    """Name the commit that is measured."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def run_once(campaign: Campaign, number: int, work: Path) -> Outcome:
    """Do one honest run, and judge it."""
    kind, disturbance = campaign.choose(number)
    results = work / f"{number:04d}"
    place = Place(results=results, shared=campaign.shared, brief=campaign.brief)
    drawn = random.Random(f"{campaign.seed} {number}")
    campaign.clock.set_shift(0.0)
    more = {"PODIUM_CACHE": str(campaign.shared / "cache")}
    environment = build_environment(campaign.clock, disturbance.step, more)
    begun, output = time.monotonic(), work / "output"
    with keep_busy(disturbance.loops, 4 * LIMIT_S), serve(kind, place, environment) as servers:
        codes, disturbed = [], list[str]()
        for words in kind.commands(place):
            command = start(words, environment, output)
            with disturb([command, *servers], disturbance, campaign.clock, drawn) as told:
                codes.append(wait(command))
            disturbed += told
            if codes[-1] != 0:
                break
    outcome = Outcome(
        number=number,
        kind=kind.name,
        model=kind.model,
        load=disturbance.name,
        commit=campaign.commit,
        seconds=round(time.monotonic() - begun, 1),
        commands=[f"podium {' '.join(words)}" for words in kind.commands(place)],
        codes=codes,
        said="" if codes[-1] == 0 else tail(output),
        disturbed=disturbed,
        judgement=judge(results, select_judged(kind, results, codes)),
    )
    keep_accused(campaign, outcome, results, output)
    shutil.rmtree(results, ignore_errors=True)
    return outcome


def select_judged(kind: Kind, results: Path, codes: Sequence[int | None]) -> str:
    """Leave the folder out where it lacks runs that LoadGen refused, or for which the time was
    short: only the runs that are there can be judged.
    """
    runs = [read_loadgen_run(path, results) for path in list_summaries(results)]
    refused = any(codes) and not all(each.valid for each in runs)
    return kind.judged.replace("folder", "") if refused or None in codes else kind.judged


def start(words: Sequence[str], environment: dict[str, str], output: Path) -> Command:
    """Start a command of podium as the leader of a group of its own."""
    with output.open("wb") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "harness", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait(command: Command) -> int | None:
    """Wait for its end; None: it took too long and was ended."""
    try:
        return command.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end(command)


def end(command: Command) -> None:
    """End what is left of a command and its children."""
    with suppress(ProcessLookupError):
        os.killpg(command.pid, signal.SIGTERM)
        os.killpg(command.pid, signal.SIGCONT)
    with suppress(subprocess.TimeoutExpired):
        command.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(command.pid, signal.SIGKILL)
    command.wait()


@contextmanager
def serve(kind: Kind, place: Place, environment: dict[str, str]) -> Iterator[list[Command]]:
    """Start the server that a kind needs, and wait until it serves."""
    if kind.server is None:
        yield []
        return
    output = place.results.with_name("served")
    server = start(kind.server(place), environment, output)
    try:
        end_s = time.monotonic() + READY_S
        while SERVES not in tail(output) and server.poll() is None and time.monotonic() < end_s:
            time.sleep(0.1)
        yield [server]
    finally:
        end(server)
        shutil.rmtree(f"{place.results}-server", ignore_errors=True)


def tail(output: Path) -> str:
    """Read the last lines of what a command printed."""
    with suppress(OSError):
        return "\n".join(output.read_text(errors="replace").splitlines()[-LINES:])
    return ""


def keep_accused(campaign: Campaign, outcome: Outcome, results: Path, output: Path) -> None:
    """Keep the folder of a run that is accused, or has wrong words or no result."""
    noted = outcome.accused or outcome.judgement.wrong_words or outcome.reason
    if campaign.keep is None or not noted:
        return
    kept = campaign.keep / f"{outcome.commit}-{campaign.seed}-{outcome.number:04d}"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(results, kept / "results", symlinks=True) if results.exists() else kept.mkdir()
    (kept / "outcome.json").write_bytes(msgspec.json.format(msgspec.json.encode(outcome), indent=1))
    shutil.copy(output, kept / "output")
    with (campaign.keep / LIST_FILE).open("a") as stream:
        stream.write(describe_accused(outcome, kept.name))


def describe_accused(outcome: Outcome, name: str) -> str:
    """Describe a kept run in the list of them."""
    lines = [f"## {name}: {outcome.kind} ({outcome.model}), {outcome.load}", ""]
    lines += [f"    {command}" for command in outcome.commands]
    lines += ["", f"- said: {outcome.reason}"] if outcome.reason else [""]
    lines += [
        f"- **{each.rule}** {each.file}: found {each.found}; expected {each.required}"
        for each in (*outcome.judgement.errors, *outcome.judgement.wrong_words)
    ]
    lines += [f"- disturbed: {'; '.join(outcome.disturbed)}"] if outcome.disturbed else []
    return "\n".join([*lines, "", ""])


def read_outcomes(path: Path | None) -> list[Outcome]:
    """Read what an earlier command has written."""
    if path is None or not path.exists():
        return []
    decode = msgspec.json.Decoder(Outcome).decode
    return [decode(line) for line in path.read_bytes().splitlines() if line.strip()]


def count_runs(outcomes: Sequence[Outcome]) -> int:
    """Count the runs of LoadGen."""
    return sum(len(each.judgement.runs) for each in outcomes)


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Print the counts by kind and load, then accusations, wrong words and failures."""
    print(
        f"{'kind':<28}{'load':<28}{'commands':>9}{'runs':>6}{'VALID':>7}{'INVALID':>9}"
        f"{'said':>8}{'accused':>9}{'wrong words':>13}"
    )
    names = dict.fromkeys((f"{each.kind} ({each.model})", each.load) for each in outcomes)
    for name, load in sorted(names):
        those = [
            each for each in outcomes if (f"{each.kind} ({each.model})", each.load) == (name, load)
        ]
        print(f"{name:<28}{load:<28}{format_counts(those)}")
    print(f"{'all':<56}{format_counts(outcomes)}")
    runs = [run for each in outcomes for run in each.judgement.runs]
    print_counter("INVALID by LoadGen", Counter(run.reason for run in runs if not run.valid))
    errors = [found for each in outcomes for found in each.judgement.errors]
    print_counter("accusations", Counter(found.rule for found in errors))
    words = [found for each in outcomes for found in each.judgement.wrong_words]
    print_counter("wrong words", Counter(found.rule for found in words))
    print_counter(
        "said why there is no result, or took too long",
        Counter(each.reason for each in outcomes if each.reason),
    )


def format_counts(outcomes: Sequence[Outcome]) -> str:
    """Format a row's figures."""
    runs = [run for each in outcomes for run in each.judgement.runs]
    valid = sum(run.valid for run in runs)
    said = sum(bool(each.reason) for each in outcomes)
    accused = sum(len(each.judgement.errors) for each in outcomes)
    words = sum(len(each.judgement.wrong_words) for each in outcomes)
    return (
        f"{len(outcomes):>9}{len(runs):>6}{valid:>7}{len(runs) - valid:>9}{said:>8}{accused:>9}"
        f"{words:>13}"
    )


def print_counter(title: str, counts: Counter[str]) -> None:
    """Print what was counted, the most frequent first."""
    print(f"\n{title}: {counts.total()}")
    for name, count in counts.most_common():
        print(f"  {count:>4}  {name[:200]}")


def summarise(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Build the figures for a program."""
    runs = [run for each in outcomes for run in each.judgement.runs]
    return {
        "commands": len(outcomes),
        "runs": len(runs),
        "valid": sum(run.valid for run in runs),
        "invalid": Counter(run.reason for run in runs if not run.valid),
        "accusations": Counter(found.rule for each in outcomes for found in each.judgement.errors),
        "wrong_words": Counter(
            found.rule for each in outcomes for found in each.judgement.wrong_words
        ),
        "said": Counter(each.reason for each in outcomes if each.reason),
        "hardware": f"{read_cpu_model()}, {len(os.sched_getaffinity(0))} cores",
    }


def parse_arguments() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(dict.fromkeys(kind.name for kind in list_kinds()))
    parser.add_argument("--runs", type=int, default=300, help="runs of LoadGen, at least")
    parser.add_argument("--kinds", help=f"comma-separated (default: all): {', '.join(names)}")
    parser.add_argument("--loads", default="0,2,8", help="busy loops, comma-separated")
    parser.add_argument(
        "--disturbances", default="none,stops,step,both", help="what else, comma-separated"
    )
    parser.add_argument("--seed", type=int, default=1, help="of order, stops and clock steps")
    parser.add_argument("--out", type=Path, help="JSON lines, one for each command; resumable")
    parser.add_argument("--keep", type=Path, help="folder for accused runs")
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    parser.add_argument("--tiny", action="store_true", help="one short run: shows that it works")
    given = parser.parse_args()
    if unknown := set(given.kinds.split(",") if given.kinds else ()) - set(names):
        parser.error(f"--kinds: unknown: {', '.join(sorted(unknown))}")
    return given


def prepare_campaign(given: argparse.Namespace, work: Path) -> Campaign:
    """Build what is asked for; make what all runs share."""
    clock = WallClock(work)
    if clock.why_not:
        print(f"no clock steps: {clock.why_not}", file=sys.stderr)
    names = given.kinds.split(",") if given.kinds else ()
    kinds = [kind for kind in list_kinds() if not names or kind.name in names]
    kinds = [kind for kind in kinds if kind.tiny] if given.tiny else kinds
    ways = given.disturbances.split(",")
    disturbances = [
        Disturbance(loops=int(loops), stops=way in ("stops", "both"), step=way in ("step", "both"))
        for loops in given.loads.split(",")
        for way in ways
        if not (clock.why_not and way in ("step", "both"))
    ]
    if given.tiny:
        disturbances = [Disturbance(loops=0, stops=True, step=not clock.why_not)]
    prepare_shared(work / "shared", kinds)
    return Campaign(
        seed=given.seed,
        kinds=kinds,
        disturbances=disturbances,
        shared=work / "shared",
        clock=clock,
        keep=given.keep,
        brief=given.tiny,
    )


def main() -> None:
    """Run, judge and count."""
    given = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # children end, too
    outcomes = read_outcomes(given.out)
    wanted = 1 if given.tiny else given.runs
    with tempfile.TemporaryDirectory(prefix="podium-benchmark-") as name:
        campaign = prepare_campaign(given, Path(name)) if count_runs(outcomes) < wanted else None
        while campaign is not None and count_runs(outcomes) < wanted:
            outcome = run_once(campaign, len(outcomes), Path(name))
            outcomes.append(outcome)
            report_progress(outcome, given.out)
    if given.form == "json":
        print(json.dumps(summarise(outcomes)))
    else:
        print_table(outcomes)
    sys.exit(any(each.accused for each in outcomes))


def report_progress(outcome: Outcome, out: Path | None) -> None:
    """Add a line to the file, and say on standard error how it went."""
    if out is not None:
        with out.open("ab") as stream:
            stream.write(msgspec.json.encode(outcome) + b"\n")
    rules = Counter(found.rule for found in outcome.judgement.errors)
    said = ", ".join(f"{count} x {rule}" for rule, count in rules.items())
    runs = outcome.judgement.runs
    print(
        f"{outcome.number}: {outcome.kind} ({outcome.model}), {outcome.load}:"
        f" {sum(run.valid for run in runs)} of {len(runs)} VALID in {outcome.seconds:g} s"
        f" {said or outcome.reason}",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    main()
