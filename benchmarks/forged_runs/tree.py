"""A copy of a finished results folder that is edited as somebody would who knows its formats: every
hash that the edit breaks is computed again.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suite.files.layout import compute_file_sha256
from suite.ledger.steps import (
    RESULT_STEPS,
    LedgerStep,
    StepKind,
    compute_line_sha256,
    encode_ledger_step,
    parse_ledger,
)

Line = dict[str, Any]
TOKEN = ":::MLLOG "
UTC_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class Inapplicable(Exception):
    """The result has nothing that this forgery edits."""


@dataclass(slots=True)
class ForgedTree:
    """A results folder under the forger's hands."""

    root: Path
    is_relinked: bool = True
    """Whether the ledger is linked again when the edit is done."""
    moved_s: dict[StepKind, int] = field(default_factory=dict)
    """Kind of step -> by how many seconds its time is moved."""

    @property
    def training_log(self) -> Path:
        """The log of the first training run."""
        return self.find_one("*/*/results/*/*/result_0.txt")

    @property
    def training_system(self) -> Path:
        """The description of the system that trained."""
        log = self.training_log
        return log.parents[3] / "systems" / f"{log.parents[1].name}.json"

    def find_one(self, pattern: str) -> Path:
        """Find the first file of a pattern; Inapplicable without one."""
        return self.find(pattern)[0]

    def find(self, pattern: str) -> list[Path]:
        """Find all files of a pattern; Inapplicable without one."""
        found = sorted(self.root.glob(pattern))
        if not found:
            raise Inapplicable(pattern)
        return found

    def remove(self, *patterns: str) -> None:
        """Remove the files and folders of some patterns."""
        for pattern in patterns:
            for path in self.find(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def edit_log(self, change: Callable[[list[Line]], object], path: Path | None = None) -> None:
        """Edit the lines of a log: of the training, or of LoadGen."""
        path = path or self.training_log
        lines = [json.loads(text.removeprefix(TOKEN)) for text in path.read_text().splitlines()]
        change(lines)
        path.write_text("".join(f"{TOKEN}{json.dumps(line)}\n" for line in lines))

    def edit_json(self, pattern: str, change: Callable[[Line], object]) -> None:
        """Edit JSON documents. Who names one by its hash names the new one."""
        for path in self.find(pattern):
            before = hashlib.sha256(path.read_bytes()).hexdigest()
            document = json.loads(path.read_text())
            change(document)
            path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
            after = hashlib.sha256(path.read_bytes()).hexdigest()
            self.replace_text(path.parent, before, after)

    def replace_text(self, folder: Path, before: str, after: str) -> None:
        """Replace a text in all JSON documents below a folder."""
        for path in folder.rglob("*.json"):
            path.write_text(path.read_text().replace(before, after))

    def edit_steps(self, change: Callable[[LedgerStep], LedgerStep]) -> None:
        """Edit each step of each ledger, and link the steps again."""
        for path in self.find("*/*/ledger/*.jsonl"):
            steps = [change(step) for step in parse_ledger(path.read_bytes())]
            path.write_bytes(link_steps(steps))

    def relink(self) -> None:
        """Hash the files of each step again, leave out those that are gone, and link the steps.

        A result that was superseded keeps its hashes, since nobody can compute them again.
        """
        self.edit_steps(self.refresh_step)

    def refresh_step(self, step: LedgerStep) -> LedgerStep:
        """Return a step with the files as they are now, and its time moved."""
        files = step.files
        if step.step in RESULT_STEPS:
            files = dict(self.iterate_present_files(step.files))
        if (seconds := self.moved_s.get(step.step)) is None:
            return replace(step, files=files)
        moment = datetime.strptime(step.utc, UTC_FORMAT).replace(tzinfo=UTC).timestamp() + seconds
        return replace(
            step, files=files, utc=datetime.fromtimestamp(moment, UTC).strftime(UTC_FORMAT)
        )

    def iterate_present_files(self, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the files that are there, with their hashes."""
        for name in files:
            path = self.root / name
            if path.is_file():
                yield name, compute_file_sha256(path)


def link_steps(steps: list[LedgerStep]) -> bytes:
    """Number the steps and link each to the one before."""
    text, before = b"", ""
    for number, step in enumerate(steps):
        line = encode_ledger_step(replace(step, n=number, previous=before))
        text, before = text + line, compute_line_sha256(line[:-1])
    return text


def find_time_ms(lines: list[Line], key: str) -> int:
    """Return when the first event of a name was logged."""
    return int(next(line["time_ms"] for line in lines if line["key"] == key))


def scale_times(lines: list[Line], factor: float) -> None:
    """Shorten all times behind run_start, and raise the throughput that is stated."""
    start_ms = find_time_ms(lines, "run_start")
    for line in lines:
        if line["time_ms"] > start_ms:
            line["time_ms"] = start_ms + round(factor * (line["time_ms"] - start_ms))
        state_throughput(line, factor)


def state_throughput(line: Line, factor: float) -> None:
    """Divide the throughput of an epoch."""
    if line["key"] == "tracked_stats":
        line["value"]["throughput"] = round(line["value"]["throughput"] / factor, 3)


def shorten_epochs(lines: list[Line], seconds: float) -> None:
    """Take so many seconds off each epoch; what follows moves with it."""
    moved_ms, begun_ms = 0.0, 0
    for line in lines:
        if line["key"] == "epoch_start":
            begun_ms = line["time_ms"]
        if line["key"] == "epoch_stop":
            taken_ms = line["time_ms"] - begun_ms
            if taken_ms <= 1500 * seconds:
                raise Inapplicable("epochs as short as what is taken off")
            moved_ms += 1000 * seconds
            factor = (taken_ms - 1000 * seconds) / taken_ms
        if line["key"] == "tracked_stats":
            state_throughput(line, factor)
        line["time_ms"] -= round(moved_ms)


def shorten_evaluations(lines: list[Line], milliseconds: int) -> None:
    """Have each evaluation take so long; what follows moves with it."""
    moved_ms, begun_ms = 0, 0
    for line in lines:
        if line["key"] == "eval_start":
            begun_ms = line["time_ms"]
        if line["key"] == "eval_accuracy":
            moved_ms += line["time_ms"] - begun_ms - milliseconds
        line["time_ms"] -= moved_ms


def delay_start(lines: list[Line], share: float) -> None:
    """Begin the clock and the first epoch late, by a share of the epoch."""
    begun_ms, ended_ms = (find_time_ms(lines, key) for key in ("epoch_start", "epoch_stop"))
    late_ms = round(share * (ended_ms - begun_ms))
    for line in lines:
        is_first = (
            line["metadata"].get("epoch_num", line["metadata"].get("first_epoch_num", 1)) == 1
        )
        if line["key"] in ("run_start", "block_start", "epoch_start") and is_first:
            line["time_ms"] += late_ms
    first = next(line for line in lines if line["key"] == "tracked_stats")
    state_throughput(first, 1 - share)


def scale_value(path: Path, patterns: list[str], factor: float) -> None:
    """Multiply the numbers behind some patterns in LoadGen's text."""
    text = path.read_text()
    for pattern in patterns:
        text = re.sub(
            rf"({pattern})([0-9.]+)",
            lambda found: found[1] + f"{float(found[2]) * factor:.6g}",
            text,
        )
    path.write_text(text)
