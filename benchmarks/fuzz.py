"""Fuzzes every reader: for any bytes it gives a value, findings, or one sentence; never a
traceback, a hang, or a write elsewhere.

Real files of podium and LoadGen, from one small campaign of the tests' fake workload and the
judge's examples, are spoilt at random and read in this process. An input is made of the seed and
its number alone, so a second run over the same files repeats the first. What goes wrong is printed
and saved: the input, under its reader's name and number, in the folder `--keep`. Exit code 1 where
anything did. With TMPDIR=/dev/shm no input waits for a disk.

Usage: python benchmarks/fuzz.py [--inputs N] [--seconds T] [--seed S] [--reader NAME] [--files DIR]
[--keep DIR] [--format text|json]
"""

import argparse
import faulthandler
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

from fuzzing.attempts import EscapeError, Guard, HangError, attempt, too_long
from fuzzing.readers import Reader, readers
from fuzzing.seeds import FAKES, made

STUCK_S: Final = 600
"""After which the process ends where no signal gets through ..."""
WATCHED: Final = 100
"""... counted from each hundredth input: the watch is a thread of its own."""
MEMORY_LIMIT: Final = 8 << 30
"""Bytes of address space; libraries that are loaded have 3 GiB of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One input that went wrong."""

    reader: str
    seed: int
    number: int
    kind: str
    """traceback, hang or escape."""
    told: str
    at: str
    """The last place in podium's own code."""
    saved: str


def explain(
    reader: Reader, seed: int, number: int, content: bytes, error: BaseException, keep: Path
) -> Found:
    """Save an input that went wrong, and say what happened."""
    kind = {HangError: "hang", EscapeError: "escape"}.get(type(error), "traceback")
    path = keep / f"{reader.name.replace('/', '-')}-{seed}-{number}"
    keep.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    own = [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename
    ]
    words = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return Found(
        reader=reader.name,
        seed=seed,
        number=number,
        kind=kind,
        told=words,
        at=" < ".join(own[:-5:-1]),
        saved=str(path),
    )


def fuzz(
    chosen: Sequence[Reader], given: argparse.Namespace, guard: Guard, tell: Callable[[Found], None]
) -> Counter[str]:
    """Read one input after the other; how many each reader read."""
    counts: Counter[str] = Counter()
    weights = list(accumulate(reader.share for reader in chosen))
    end = time.monotonic() + given.seconds if given.seconds else float("inf")
    for number in range(given.inputs):
        dice = random.Random(f"{given.seed} {number}")
        reader = dice.choices(chosen, cum_weights=weights)[0]
        content = reader.make(dice, dice.choice(reader.seeds), reader.seeds)
        counts[reader.name] += 1
        if number % WATCHED == 0:
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
        error = attempt(reader, content, guard)
        if error is not None:
            tell(explain(reader, given.seed, number, content, error, given.keep))
        if time.monotonic() > end:
            break
    faulthandler.cancel_dump_traceback_later()
    return counts


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs to read")
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="end after so many; 0: after the last input"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the inputs")
    parser.add_argument("--reader", default="", help="only readers whose name begins so")
    parser.add_argument(
        "--files",
        type=Path,
        help="folder for the campaign's results; one that is there is used again",
    )
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-findings"), help="folder for inputs that went wrong"
    )
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    return parser.parse_args(words)


def run(given: argparse.Namespace) -> tuple[Counter[str], list[Found], float]:
    """Make the files, spoil them, read them: counts, what went wrong, and the seconds that reading
    took.
    """
    found: list[Found] = []

    def tell(one: Found) -> None:
        found.append(one)
        print(
            f"{one.kind}: {one.reader}, seed {one.seed}, input {one.number}: {one.told} ({one.at});"
            f" saved as {one.saved}",
            file=sys.stderr,
        )

    given.keep = given.keep.absolute()
    with tempfile.TemporaryDirectory(prefix="podium-fuzz-") as name:
        work = Path(name).resolve()
        results = made((given.files or work / "made" / "results").absolute())
        tempfile.tempdir = str(work)
        chosen = [
            reader
            for reader in readers(results, work / "spoilt")
            if reader.name.startswith(given.reader)
        ]
        if not chosen:
            sys.exit(f"no reader's name begins with {given.reader}")
        begin = time.monotonic()
        counts = fuzz(chosen, given, Guard(work), tell)
        tempfile.tempdir = None
        return counts, found, time.monotonic() - begin


def main() -> None:
    """Fuzz, and print the figures."""
    given = arguments()
    # a module that a reader imports first would be written outside its folder: an escape, as the
    # guard sees it
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    signal.signal(signal.SIGPROF, too_long)
    signal.signal(signal.SIGALRM, too_long)
    counts, found, seconds = run(given)
    if given.form == "json":
        print(
            json.dumps(
                {
                    "inputs": counts.total(),
                    "seconds": seconds,
                    "seed": given.seed,
                    "by_reader": counts,
                    "found": [asdict(one) for one in found],
                }
            )
        )
    else:
        kinds = Counter(one.kind for one in found)
        print(
            f"{counts.total():,} inputs to {len(counts)} readers in {seconds:.0f} s, seed"
            f" {given.seed}"
        )
        print(
            "  " + ", ".join(f"{kinds[kind]} {kind}s" for kind in ("traceback", "hang", "escape"))
        )
    sys.exit(bool(found))


if __name__ == "__main__":
    sys.path[:0] = [str(FAKES), str(FAKES.parent / "shared")]
    from judged_examples import ensure_examples

    ensure_examples()
    main()
