"""A published inference entry since v1.0 in a copy of its organisation's tree, and how its files
are changed.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from compliance.kinds.inference_mllog.round import (
    InferenceMllogModel,
    InferenceMllogRound,
    load_inference_mllog_round,
)

from ..judging import Court, Outcome, copied
from ..kinds import Kind
from ..undoing import Undo

DETAIL: Final = "mlperf_log_detail.txt"
SUMMARY: Final = "mlperf_log_summary.txt"
ANSWERS: Final = "mlperf_log_accuracy.json"
CLAIM: Final = "accuracy.txt"
RECORD: Final = '"key": "{}", "value": '
VALUE: Final = re.compile(r'(?P<value>.*?)(?P<rest>, "time_ms": .*)')
Change = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """One scenario of a benchmark on a system."""

    home: Path
    """`<division>/<org>` in the copy."""
    folder: Path
    origin: Path
    undo: Undo
    round: InferenceMllogRound

    @property
    def scenario(self) -> str:
        """Of its folder."""
        return self.folder.name

    @property
    def model(self) -> InferenceMllogModel:
        """Its benchmark's row."""
        return self.round.models[str(self.round.find_benchmark(self.folder.parent.name))]

    @property
    def run(self) -> Path:
        """Its performance run."""
        return next(
            path
            for path in sorted((self.folder / "performance").iterdir())
            if path.is_dir() and (path / DETAIL).exists()
        )

    @property
    def accuracy(self) -> Path:
        """Its accuracy run."""
        return self.folder / "accuracy"

    @property
    def measurements(self) -> Path:
        """Its measurements."""
        return (
            self.folder
            if self.round.rules.together
            else self.home / "measurements" / self.folder.relative_to(self.home / "results")
        )

    @property
    def tests(self) -> Path:
        """Its compliance tests."""
        return (
            self.folder
            if self.round.rules.together
            else self.home / "compliance" / self.folder.relative_to(self.home / "results")
        )

    @property
    def described(self) -> Path:
        """The description of its model."""
        found = sorted(self.measurements.glob("*.json"))
        system = self.folder.parents[1].name
        return next(
            path
            for path in found
            if path.name == "measurements.json" or path.name.startswith(system)
        )

    @property
    def system(self) -> Path:
        """The system description."""
        return self.home / "systems" / f"{self.folder.parents[1].name}.json"

    @property
    def others(self) -> Iterator[Path]:
        """Yield the other published entries of the round."""
        round_folder = self.origin.parents[5]
        yield from (
            path
            for path in sorted(round_folder.glob("*/*/results/*/*/*"))
            if path.is_dir() and path.parent != self.origin.parent
        )

    def value(self, key: str, folder: Path | None = None) -> Any:
        """Give the value of an event of the run; None where it has none."""
        text = ((folder or self.run) / DETAIL).read_text("latin-1")
        at = text.find(RECORD.format(key))
        match = VALUE.match(text, at + len(RECORD.format(key))) if at >= 0 else None
        return json.loads(match["value"]) if match else None

    def change(self, keys: Iterable[str], change: Change, folder: Path | None = None) -> bool:
        """Change the value of each of these events; False where none is there, or nothing
        changes.
        """
        path = (folder or self.run) / DETAIL
        return self.undo.edit(path, lambda text: changed(text, keys, change))

    def drop(self, key: str, folder: Path | None = None) -> bool:
        """Take an event's records out."""
        return self.undo.edit(
            (folder or self.run) / DETAIL,
            lambda text: "".join(
                line for line in text.splitlines(keepends=True) if RECORD.format(key) not in line
            ),
        )

    def table(self, path: Path, **told: Any) -> bool:
        """Change fields of a JSON object; `...` takes one out."""
        if not path.is_file():
            return False
        before = json.loads(path.read_bytes())
        after = {key: value for key, value in {**before, **told}.items() if value is not ...}
        return after != before and self.undo.write(path, json.dumps(after, indent=2))


def changed(text: str, keys: Iterable[str], change: Change) -> str:
    """Change the values of events in a detail log."""
    for key in keys:
        mark, at = RECORD.format(key), 0
        while (at := text.find(mark, at)) >= 0:
            begin = at + len(mark)
            match = VALUE.match(text, begin)
            assert match
            text = (
                text[:begin]
                + json.dumps(change(json.loads(match["value"])))
                + text[match.end("value") :]
            )
            at = begin
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterBase:
    """A published entry, copied with what belongs to it."""

    name: str
    origin: Path
    home: Path
    folder: Path

    def entry(self, aside: Path) -> Later:
        """Give the copy to change."""
        round_name = self.name.partition("/")[0].replace("_", "-")
        return Later(
            home=self.home,
            folder=self.folder,
            origin=self.origin,
            undo=Undo(aside),
            round=load_inference_mllog_round(round_name),
        )


def later_bases(corpus: Path, work: Path, step: int = 1) -> Iterator[LaterBase]:
    """Copy each entry that has its logs, with its benchmark's other scenarios, into a tree of its
    own.
    """
    found = sorted(
        path
        for path in corpus.glob("inference_v[13456].*/*/*/results/*/*/*")
        if (path / "performance" / "run_1" / DETAIL).exists()
    )
    for index, folder in enumerate(found[::step]):
        org, inside = folder.parents[3], folder.parent.relative_to(folder.parents[3] / "results")
        home = work / org.parents[1].name / f"entry{index:02}" / org.parent.name / org.name
        copied(
            org,
            home,
            (
                "systems",
                *(f"{part}/{inside}" for part in ("results", "measurements", "compliance")),
            ),
        )
        yield LaterBase(
            name="/".join(folder.relative_to(corpus).parts),
            origin=folder,
            home=home,
            folder=home / "results" / inside / folder.name,
        )


def later_judged(
    kinds: Iterable[Kind[Later]], bases: list[LaterBase], court: Court, work: Path, most: int
) -> Iterator[Outcome]:
    """Put each kind into up to so many entries; where the entry is gone, its benchmark is
    judged.
    """
    (work / "aside").mkdir(exist_ok=True)
    for at, kind in enumerate(kinds):
        taken = 0
        for base in bases[at % max(len(bases), 1) :] + bases[: at % max(len(bases), 1)]:
            if taken >= most:
                break
            entry = base.entry(work / "aside")
            whole = entry.folder.parent if kind.in_tree else entry.folder
            before = court.warnings(kind.name, whole)
            try:
                if kind.change(entry):
                    taken += 1
                    path = (
                        entry.folder
                        if entry.folder.exists() and not kind.in_tree
                        else entry.folder.parent
                    )
                    yield court.outcome(kind.name, base.name, path, kind.required, before)
            finally:
                entry.undo.back()
