"""An inference entry in a copy of its organisation's tree, and how its files are changed."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..kinds import Kinds
from ..undoing import Undo

SUMMARY: Final = "mlperf_log_summary.txt"
DETAIL: Final = "mlperf_log_detail.txt"
ANSWERS: Final = "mlperf_log_accuracy.json"
CLAIM: Final = "accuracy.txt"
Edit = Callable[[str], str]
Answer = dict[str, Any]


@dataclass(slots=True)
class Entry:
    """One scenario of a benchmark on a system."""

    home: Path
    """`<division>/<org>` in the copy."""
    folder: Path
    origin: Path
    """The entry as it was published."""
    undo: Undo

    @property
    def scenario(self) -> str:
        """The scenario's folder."""
        return self.folder.name

    @property
    def model(self) -> str:
        """The benchmark's folder."""
        return self.folder.parent.name

    @property
    def system(self) -> str:
        """The system's folder."""
        return self.folder.parents[1].name

    @property
    def closed(self) -> bool:
        """Whether it is filed in the closed division."""
        return self.home.parent.name == "closed"

    @property
    def accuracy(self) -> Path:
        """The accuracy run."""
        return self.folder / "accuracy"

    @property
    def runs(self) -> list[Path]:
        """The performance runs."""
        return sorted(path for path in (self.folder / "performance").iterdir() if path.is_dir())

    @property
    def measurements(self) -> Path:
        """Its measurements folder."""
        return self.home / "measurements" / self.system / self.model / self.scenario

    @property
    def described(self) -> Path:
        """The description of how it was measured."""
        return next(
            path
            for path in sorted(self.measurements.glob("*.json"))
            if path.name.startswith(self.system)
        )

    @property
    def system_file(self) -> Path:
        """The system description."""
        return self.home / "systems" / f"{self.system}.json"

    @property
    def audit(self) -> Path:
        """Its audit folder."""
        return self.home / "audit" / self.system / self.model / self.scenario

    @property
    def is_submission_run(self) -> bool:
        """Whether its performance run is its accuracy run, too."""
        return ": Submission" in (self.runs[0] / DETAIL).read_text("latin-1")

    def summary(self, change: Edit) -> bool:
        """Change the summary of the first run."""
        return self.undo.edit(self.runs[0] / SUMMARY, change)

    def detail(self, change: Edit) -> bool:
        """Change the detail log of the first run."""
        return self.undo.edit(self.runs[0] / DETAIL, change)

    def both(self, change: Edit) -> bool:
        """Change summary and detail log of the first run alike."""
        return all([self.summary(change), self.detail(change)])

    def answers(self, change: Callable[[list[Answer]], list[Answer]]) -> bool:
        """Change what the accuracy run answered."""
        path = self.accuracy / ANSWERS
        if not path.is_file():
            return False
        before = json.loads(path.read_bytes())
        after = change([dict(answer) for answer in before])
        return after != before and self.undo.write(path, written(after))

    def others(self) -> Iterator[Path]:
        """Yield the other published entries of the same scenario, this benchmark's first."""
        found = [
            path
            for path in sorted(self.origin.parents[5].glob(f"*/*/results/*/*/{self.scenario}"))
            if path != self.origin
        ]
        yield from sorted(found, key=lambda path: path.parent.name != self.model)


def written(answers: list[Answer]) -> str:
    """Write an accuracy log as LoadGen does."""
    lines = ",\n".join(
        f'{{ "seq_id" : {each["seq_id"]}, "qsl_idx" : {json.dumps(each["qsl_idx"])}, "data" :'
        f" {json.dumps(each['data'])} }}"
        for each in answers
    )
    return f"[\n{lines}\n]\n"


ENTRIES: Kinds[Entry] = Kinds()


def field(label: str, change: Callable[[str], str]) -> Edit:
    """Change what stands behind a label in a summary or detail log, wherever it stands; an
    unchanged text where it does not.
    """
    pattern = re.compile(
        rf"^((?:\"pid\".*?ns : |[ \t]*)?{re.escape(label)}\s*:[ \t]*)(\S.*?)([ \t]*\r?)$",
        re.MULTILINE,
    )
    return lambda text: pattern.sub(lambda match: match[1] + change(match[2]) + match[3], text)


def to(value: object) -> Callable[[str], str]:
    """Replace by a value."""
    return lambda _: str(value)


def times(factor: float) -> Callable[[str], str]:
    """Multiply a number, as its own kind."""
    return lambda text: (
        str(round(int(text) * factor))
        if re.fullmatch(r"-?\d+", text)
        else f"{float(text) * factor:.6g}"
    )


def without_line(part: str) -> Edit:
    """Take lines with this text out."""
    return lambda text: "".join(line for line in text.splitlines(keepends=True) if part not in line)


def in_closed(change: Callable[[Entry], bool]) -> Callable[[Entry], bool]:
    """Only in the closed division."""
    return lambda entry: entry.closed and change(entry)


def of_scenarios(
    scenarios: tuple[str, ...], change: Callable[[Entry], bool]
) -> Callable[[Entry], bool]:
    """Only for some scenarios."""
    return lambda entry: entry.scenario in scenarios and change(entry)


def once(padded: Callable[[Entry], bool]) -> Callable[[Entry], bool]:
    """Not for MultiStream, which pads."""
    return lambda entry: entry.scenario != "MultiStream" and padded(entry)


def substituted(pattern: str, by: str | Callable[[re.Match[str]], str], count: int = 0) -> Edit:
    """Replace what a pattern finds; ^ is the start of a line."""
    return lambda text: re.sub(pattern, by, text, count=count, flags=re.MULTILINE)


def half(text: str) -> str:
    """Keep the first half."""
    return text[: len(text) // 2]
