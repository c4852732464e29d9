"""Fuzzes every reader: for any bytes it must return a value, findings, or one sentence, but never
cause a traceback, a hang, or a write elsewhere.

Real files of podium and LoadGen, from one small campaign of the tests' fake workload and the
judge's examples, are corrupted at random and read in this process. An input depends only on the
seed and its number, so a second run over the same files repeats the first. Failures are printed,
and their inputs are saved in the folder `--keep`, under the reader's name and the number. The exit
code is 1 if there was a failure. With TMPDIR=/dev/shm no input waits for a disk.

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

from common.tiny import add_tiny_option, choose_size
from fuzzing.attempts import EscapeError, Guard, HangError, attempt, too_long
from fuzzing.readers import Reader, readers
from fuzzing.seeds import FAKES, made

STUCK_S: Final = 600
"""Seconds after which the process ends if no signal gets through ..."""
WATCHED: Final = 100
"""... counted from every hundredth input, by a separate thread."""
MEMORY_LIMIT: Final = 8 << 30
"""Bytes of address space; the loaded libraries take 3 GiB of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One input that caused a failure."""

    reader: str
    seed: int
    number: int
    kind: str
    """traceback, hang or escape."""
    told: str
    at: str
    """The last location in podium's code."""
    saved: str


def explain(
    reader: Reader, seed: int, number: int, content: bytes, error: BaseException, keep: Path
) -> Found:
    """Save an input that caused a failure, and print what happened."""
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
    """Read one input after another; return the number per reader."""
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
    parser.add_argument(
        "--inputs", type=int, default=choose_size(1_000_000, 200), help="inputs to read"
    )
    add_tiny_option(parser)
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.0,
        help="stop after so many seconds; 0: after the last input",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the inputs")
    parser.add_argument("--reader", default="", help="only readers whose name begins with this")
    parser.add_argument(
        "--files",
        type=Path,
        help="folder for the campaign's results; an existing one is reused",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path("fuzz-findings"),
        help="folder for inputs that caused a failure",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    return parser.parse_args(words)


def run(given: argparse.Namespace) -> tuple[Counter[str], list[Found], float]:
    """Build the files, corrupt and read them; return counts, failures, and the seconds spent
    reading.
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
