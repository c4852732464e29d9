"""Breaks real inference entries one rule at a time: what the judge has to find out in each of them.

A kind is a function on the copy of an entry; it gives False where the entry has nothing that it
could break. Copies are hard links: whoever changes a file writes it anew.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.documents.inference_text.entry import find_performance_folders
from suite.files.layout import ACCURACY_LOG, ACCURACY_TEXT, DETAIL_LOG, SUMMARY_LOG


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutable:
    """A copy of an entry with what belongs to it."""

    home: Path
    system: str
    model: str
    scenario: str

    @property
    def entry(self) -> Path:
        return self.home / "results" / self.system / self.model / self.scenario

    @property
    def runs(self) -> list[Path]:
        return list(find_performance_folders(self.entry))

    @property
    def accuracy(self) -> Path:
        return self.entry / "accuracy"

    @property
    def measurements(self) -> Path:
        return self.home / "measurements" / self.system / self.model / self.scenario

    @property
    def audit(self) -> Path:
        return self.home / "audit" / self.system / self.model / self.scenario

    @property
    def description(self) -> Path:
        return self.home / "systems" / f"{self.system}.json"

    @property
    def closed(self) -> bool:
        return self.home.parent.name == "closed"


Kind = Callable[[Mutable], bool]


def linked(source: str, target: str) -> None:
    """Copy a file: by a link where that can be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def copied(entry: Path, root: Path, audit: bool = True) -> Mutable:
    """Copy an entry and what belongs to it below a new folder."""
    system, model, scenario = entry.parts[-3:]
    old = entry.parents[3]
    new = Mutable(
        home=root / old.parent.name / old.name, system=system, model=model, scenario=scenario
    )
    for below in ("results", "measurements", "audit") if audit else ("results", "measurements"):
        if (old / below / system / model / scenario).is_dir():
            shutil.copytree(
                old / below / system / model / scenario,
                new.home / below / system / model / scenario,
                copy_function=linked,
            )
    shutil.copytree(old / "code" / model, new.home / "code" / model, copy_function=linked)
    new.description.parent.mkdir()
    linked(str(old / "systems" / f"{system}.json"), str(new.description))
    for folder in [new.home, *(path for path in new.home.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)  # the copy of a folder that may not be written may not be written
    return new


def rewrite(path: Path, content: str | bytes) -> bool:
    """Write a file anew; tell whether that changed it."""
    old = path.read_bytes() if path.exists() else None
    new = content if isinstance(content, bytes) else content.encode("latin-1")
    path.unlink(missing_ok=True)
    path.write_bytes(new)
    return new != old


def edit(path: Path, change: Callable[[str], str]) -> bool:
    """Change a file's text; False where it is not there or nothing changed."""
    return path.is_file() and rewrite(path, change(path.read_bytes().decode("latin-1")))


def sub(
    old: str, new: str | Callable[[re.Match[str]], str], count: int = 0
) -> Callable[[str], str]:
    return lambda text: re.sub(old, new, text, count=count, flags=re.MULTILINE)


def summary(change: Callable[[str], str]) -> Kind:
    """Change the summary of the first performance run."""
    return lambda base: edit(base.runs[0] / SUMMARY_LOG, change)


def detail(change: Callable[[str], str]) -> Kind:
    """Change the detail log of the first performance run."""
    return lambda base: edit(base.runs[0] / DETAIL_LOG, change)


def everywhere(change: Callable[[str], str]) -> Kind:
    """Change both logs of every performance run."""
    return lambda base: (
        sum(edit(run / name, change) for run in base.runs for name in (DETAIL_LOG, SUMMARY_LOG)) > 0
    )


def only(test: Callable[[Mutable], bool], kind: Kind) -> Kind:
    """A kind for some entries."""
    return lambda base: test(base) and kind(base)


def of(*scenarios: str) -> Callable[[Mutable], bool]:
    return lambda base: base.scenario in scenarios


def closed(kind: Kind) -> Kind:
    return only(lambda base: base.closed, kind)


def times(factor: float) -> Callable[[re.Match[str]], str]:
    """Multiply the number in group 2."""
    return lambda match: (
        match[1]
        + (
            f"{float(match[2]) * factor:.2f}"
            if "." in match[2]
            else str(int(int(match[2]) * factor))
        )
    )


def value(name: str, factor: float) -> Kind:
    """Multiply the first value of that name in the summary."""
    return summary(sub(rf"^(\s*{re.escape(name)}[^:\n]*:\s*)(\d[\d.]*)", times(factor), 1))


def setting(name: str, new: str) -> Kind:
    """Change a setting wherever it stands: in effect, asked for, in the summary."""
    spelt = name.replace("_ms", r"(?:_ms| \(ms\))").replace("_ns", r"(?:_ns| \(ns\))")
    return everywhere(
        sub(
            rf"((?:^|ns : )(?:server_|multi_stream_|single_stream_|offline_)?{spelt} ?: )\S+",
            rf"\g<1>{new}",
        )
    )


def effective(name: str) -> Kind:
    """Change a setting in the block of those in effect."""
    return detail(
        sub(
            rf"(ns : {re.escape(name)} ?: )(\d+)(?=\n(?:(?!Requested)[\s\S])*Requested)",
            lambda match: f"{match[1]}{int(match[2]) + 7}",
            1,
        )
    )


def removed(path: Callable[[Mutable], Path]) -> Kind:
    """Remove a file or folder."""

    def kind(base: Mutable) -> bool:
        found = path(base)
        if found.is_dir():
            shutil.rmtree(found)
            return True
        if found.is_file():
            found.unlink()
            return True
        return False

    return kind


def written(path: Callable[[Mutable], Path], content: bytes) -> Kind:
    """Put something else into a file that is there."""
    return lambda base: path(base).is_file() and rewrite(path(base), content)


def field(path: Callable[[Mutable], Path | None], name: str, new: object = ...) -> Kind:
    """Change or remove a field of a JSON document."""

    def kind(base: Mutable) -> bool:
        file = path(base)
        if file is None or not file.is_file():
            return False
        table = json.loads(file.read_text())
        if new is ... and name not in table:
            return False
        table = (
            {key: each for key, each in table.items() if key != name}
            if new is ...
            else {**table, name: new}
        )
        return rewrite(file, json.dumps(table, indent=1))

    return kind


def answers(change: Callable[[list[str]], list[str]]) -> Kind:
    """Change the lines of the accuracy log between its brackets."""

    def kind(base: Mutable) -> bool:
        path = base.accuracy / ACCURACY_LOG
        if not path.is_file():
            return False
        rows = [line.rstrip(",") for line in path.read_text().splitlines()[1:-1]]
        return rewrite(path, "[\n" + ",\n".join(change(rows)) + "\n]\n")

    return kind


def run_detail(base: Mutable) -> Path:
    return base.runs[0] / DETAIL_LOG


def run_summary(base: Mutable) -> Path:
    return base.runs[0] / SUMMARY_LOG


def measured(base: Mutable) -> Path | None:
    return next(iter(sorted(base.measurements.glob(f"{base.system}*.json"))), None)


def copy_over(source: Callable[[Mutable], Path], target: Callable[[Mutable], Path]) -> Kind:
    """Put one file in another's place."""
    return lambda base: (
        source(base).is_file()
        and target(base).is_file()
        and rewrite(target(base), source(base).read_bytes())
    )


def utf16(path: Callable[[Mutable], Path]) -> Kind:
    """Save a file as an editor of another system would."""
    return lambda base: (
        path(base).is_file()
        and rewrite(path(base), path(base).read_bytes().decode("latin-1").encode("utf-16"))
    )


def submission(base: Mutable) -> bool:
    """Tell whether the performance run is the accuracy run too."""
    return run_summary(base).is_file() and "Submission" in run_summary(base).read_text("latin-1")


def alone(kind: Kind) -> Kind:
    """A kind for entries whose runs are one for each mode."""
    return only(lambda base: not submission(base), kind)


def several(kind: Kind) -> Kind:
    """A kind for entries with more than one performance run."""
    return only(lambda base: len(base.runs) > 1, kind)


def in_accuracy(change: Callable[[str], str]) -> Kind:
    """Change the detail log of the accuracy run."""
    return lambda base: edit(base.accuracy / DETAIL_LOG, change)


def logged(text: str, before: str) -> Callable[[str], str]:
    """Let LoadGen log something before a line."""
    return sub(rf'^("pid": \d+, "tid": \d+, "ts": \d+ns : )(?={before})', rf"\g<1>{text}\n\g<1>", 1)


def headless(text: str) -> str:
    """Take the scenario's result out."""
    return re.sub(
        r"^(90th percentile latency|Samples per query|Scheduled samples per second|Samples per"
        r" second).*\n",
        "",
        text,
        count=1,
        flags=re.MULTILINE,
    )


def other_errors(text: str) -> str:
    """Tell errors where there are none, and none where there are."""
    return re.sub(
        END,
        "No errors encountered during test." if "ERROR" in text else "3 ERRORS encountered.",
        text,
        flags=re.MULTILINE,
    )


def same_run(base: Mutable) -> bool:
    """Put the first run in the second's place."""
    if len(base.runs) < 2:
        return False
    first, second = base.runs[:2]
    shutil.rmtree(second)
    shutil.copytree(first, second)
    return True


def earlier_stamps(text: str) -> str:
    """Let LoadGen's clock run ten times faster."""
    return re.sub(r'"ts": (\d+)ns', lambda match: f'"ts": {int(match[1]) // 10}ns', text)


def backwards(text: str) -> str:
    """Let one line in the middle be earlier than the one before it."""
    lines = text.split("\n")
    places = [
        place for place, line in enumerate(lines) if '"ts": ' in line and "GeneratedQueries" in line
    ]
    lines[places[-1]] = re.sub(r'"ts": \d+ns', '"ts": 5ns', lines[places[-1]])
    return "\n".join(lines)


def other_classes(rows: list[str]) -> list[str]:
    """Give the first hundred samples one class."""
    data = re.search(r'"data" : "([0-9A-F]*)"', rows[0])
    assert data
    return [
        re.sub(r'"data" : "[0-9A-F]*"', f'"data" : "{data[1]}"', row) for row in rows[:100]
    ] + rows[100:]


def of_images(kind: Kind) -> Kind:
    """A kind for entries whose answers are classes."""
    return only(lambda base: base.model in ("resnet", "mobilenet"), kind)


def single_answers(kind: Kind) -> Kind:
    """A kind for entries whose accuracy log has no padding."""
    return only(lambda base: base.scenario != "MultiStream", kind)


def claims(change: Callable[[str], str]) -> Kind:
    return lambda base: edit(base.accuracy / ACCURACY_TEXT, change)


def verified(change: Callable[[str], str], part: str = "performance") -> Kind:
    """Change the outcome of the first compliance test."""

    def kind(base: Mutable) -> bool:
        found = sorted(
            path for path in base.audit.glob("TEST0[135]*/*verify*.txt") if part in path.name
        )
        return bool(found) and edit(found[0], change)

    return kind


def configured(line: str) -> Kind:
    """Add a line to user.conf."""
    return lambda base: edit(
        base.measurements / "user.conf", lambda text: f"{text}\n{line.format(base.scenario)}\n"
    )


def bases(root: Path) -> Iterator[Path]:
    """Yield every entry of a tree with divisions."""
    yield from sorted(path for path in root.glob("*/*/results/*/*/*") if path.is_dir())


LATENCIES: Final = ("Min latency", "Max latency", "Mean latency")
END: Final = r"^(No errors encountered|\d+ ERRORS? encountered).*"
