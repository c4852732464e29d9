"""Mutants of run sets: the runs of one benchmark on one system."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..kinds import Kinds
from ..undoing import Undo
from .accuracy import capped, last
from .hyperparameters import ALL, different
from .log import Log

NAME: Final = re.compile(r"result_(\d+)\.txt")


@dataclass(slots=True)
class TrainingSet:
    """A set in a copy of its organisation's folder."""

    home: Path
    folder: Path
    origin: Path
    """The set as it was published."""
    undo: Undo

    @property
    def runs(self) -> list[Path]:
        """Its logs by number."""
        return sorted(
            (path for path in self.folder.iterdir() if NAME.fullmatch(path.name)), key=number
        )

    @property
    def system_file(self) -> Path:
        """The system description."""
        return self.home / "systems" / f"{self.folder.parent.name}.json"

    def log(self, index: int) -> Log:
        """Read a run."""
        return Log.of(self.runs[index].read_bytes())

    def put(self, index: int, log: Log) -> bool:
        """Write a run."""
        return self.undo.write(self.runs[index], log.content())

    def free(self) -> Path:
        """Name the next log."""
        return self.folder / f"result_{number(self.runs[-1]) + 1}.txt"

    def change(self, index: int, edit: Callable[[Log], bool]) -> bool:
        """Change a run."""
        log = self.log(index)
        return bool(log.records) and edit(log) and self.put(index, log)


def number(path: Path) -> int:
    """Give a log's number."""
    match = NAME.fullmatch(path.name)
    return int(match[1]) if match else -1


SETS: Kinds[TrainingSet] = Kinds()


def shifted(log: Log, seconds: float) -> bool:
    """Shift all times but those of headers without one."""
    return log.edit(
        lambda record: record.later(seconds) if record.seconds > 0 else record, *log.records
    )


@SETS.add("as many runs as the benchmark has")
def first_run_missing(a_set: TrainingSet) -> bool:
    return a_set.undo.delete(a_set.runs[0])


@SETS.add("as many runs as the benchmark has")
def last_run_missing(a_set: TrainingSet) -> bool:
    return a_set.undo.delete(a_set.runs[-1])


@SETS.add("as many runs as the benchmark has")
def one_run_alone(a_set: TrainingSet) -> bool:
    return all(a_set.undo.delete(path) for path in a_set.runs[1:])


@SETS.add("as many runs as the benchmark has")
def all_runs_missing(a_set: TrainingSet) -> bool:
    return all(a_set.undo.delete(path) for path in a_set.runs)


@SETS.add("as many runs as the benchmark has")
def one_run_too_many(a_set: TrainingSet) -> bool:
    log = a_set.log(1)
    if not log.records:
        return False
    shifted(log, 86400.0)
    fresh(log)
    return a_set.undo.write(a_set.free(), log.content())


def fresh(log: Log) -> None:
    """Make a copied run look like one of its own: another seed, other accuracies, other lengths."""
    log.edit(lambda record: replace(record, value=record.value + 17), *log.of_key("seed"))
    run = [
        index
        for index, record in log.records.items()
        if record.key.startswith(("epoch", "block", "eval", "run_stop"))
    ]
    begin = log.records[log.of_key("run_start")[0]].seconds
    log.edit(lambda record: record.at(begin + (record.seconds - begin) * 1.0103 + 0.007), *run)


@SETS.add("runs are numbered by result_N.txt")
def a_run_of_another_name(a_set: TrainingSet) -> bool:
    return a_set.undo.rename(a_set.runs[1], a_set.folder / "run_1.txt")


@SETS.add("runs are numbered without a gap")
def a_gap_in_the_numbers(a_set: TrainingSet) -> bool:
    return a_set.undo.rename(
        a_set.runs[-1], a_set.folder / f"result_{number(a_set.runs[-1]) + 3}.txt"
    )


@SETS.add("each run is a run of its own")
def copied_run(a_set: TrainingSet) -> bool:
    return a_set.undo.copy(a_set.runs[0], a_set.runs[2])


@SETS.add("each run is a run of its own")
def copied_run_with_shifted_times(a_set: TrainingSet) -> bool:
    log = a_set.log(0)
    return bool(log.records) and shifted(log, 7200.0) and a_set.put(2, log)


@SETS.add("each run is a run of its own")
def copied_run_with_other_line_ends(a_set: TrainingSet) -> bool:
    return a_set.undo.write(
        a_set.runs[2], a_set.runs[0].read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b" \r\n")
    )


@SETS.add("each run is a run of its own")
def copied_records_in_other_noise(a_set: TrainingSet) -> bool:
    return a_set.undo.write(
        a_set.runs[2],
        b"another host starts\n" + a_set.runs[0].read_bytes() + b"\nanother host ends\n",
    )


@SETS.add("each run is a run of its own")
def copied_run_with_another_seed(a_set: TrainingSet) -> bool:
    log = a_set.log(0)
    return log.edit(
        lambda record: replace(record, value=record.value + 1), *log.of_key("seed")
    ) and a_set.put(2, log)


@SETS.add("each run is a run of its own")
def copied_run_with_shifted_times_and_another_seed(a_set: TrainingSet) -> bool:
    log = a_set.log(0)
    if not log.records:
        return False
    shifted(log, 3600.0)
    log.edit(lambda record: replace(record, value=424242), *log.of_key("seed"))
    return a_set.put(1, log)


@SETS.add("each run has a seed of its own")
def same_seed_twice(a_set: TrainingSet) -> bool:
    seed = a_set.log(0).value("seed")
    return seed is not None and a_set.change(
        1, lambda log: log.edit(lambda record: replace(record, value=seed), *log.of_key("seed"))
    )


def in_one_run(key: str) -> Callable[[TrainingSet], bool]:
    """Give a hyper-parameter another legal value in one run."""

    def edit(log: Log) -> bool:
        return log.edit(
            lambda record: replace(record, value=legal(key, record.value)), *log.of_key(key)
        )

    return lambda a_set: key not in FIXED and a_set.change(1, edit)


def identified(key: str, value: Any) -> Callable[[Log], bool]:
    """Give a record another value."""
    return lambda log: (
        log.value(key) != value
        and log.edit(lambda record: replace(record, value=value), *log.of_key(key))
    )


FIXED: Final = (
    "opt_name",
    "lars_epsilon",
    "lars_opt_end_learning_rate",
    "lars_opt_learning_rate_decay_poly_power",
    "opt_learning_rate_decay_boundary_epochs",
)
"""Changed, they break a rule about one log."""


def legal(key: str, value: Any) -> Any:
    """Give another value that the table allows where that is easy."""
    if key == "opt_adam_beta_1":
        return 0.86 if value != 0.86 else 0.9
    if key == "opt_adam_beta_2":
        return 0.997
    return [part * 2 for part in value] if isinstance(value, list) else different(value)


SETS.made(
    ("global_batch_size", *(key for key in ALL if key not in FIXED)),
    in_one_run,
    "one_run_with_another",
    "equal in all runs",
)


SETS.put(
    "first_run_with_another_global_batch_size",
    lambda a_set: a_set.change(0, identified("global_batch_size", 1234)),
    "equal in all runs",
)


def not_converged(log: Log) -> bool:
    """Let a run miss its target, and say so."""
    return log.edit(capped(log, 0.02), *last(log)) and log.edit(
        lambda record: record.where(status="aborted"), *log.of_key("run_stop")
    )


def runs_not_converged(count: int) -> Callable[[TrainingSet], bool]:
    """Let runs miss their target."""

    def change(a_set: TrainingSet) -> bool:
        good = [
            index
            for index in range(len(a_set.runs))
            if (stop := a_set.log(index).one("run_stop"))
            and stop.metadata.get("status") == "success"
        ]
        return len(good) >= count and all(
            a_set.change(index, not_converged) for index in good[:count]
        )

    return change


SETS.put("two_runs_not_converged", runs_not_converged(2), "at most one run misses the target")
SETS.put("three_runs_not_converged", runs_not_converged(3), "at most one run misses the target")


@SETS.add("at most one run misses the target")
def two_runs_aborted(a_set: TrainingSet) -> bool:
    return all(
        a_set.change(
            index,
            lambda log: log.edit(
                lambda record: record.where(status="aborted"), *log.of_key("run_stop")
            ),
        )
        for index in (0, 1)
    )


def identity(key: str, value: Any) -> Callable[[TrainingSet], bool]:
    """Let one run say something else about itself."""
    return lambda a_set: a_set.change(1, identified(key, value))


SETS.put("one_run_of_another_org", identity("submission_org", "Contoso"), "one organisation")
SETS.put("one_run_of_nvidia", identity("submission_org", "NVIDIA"), "one organisation")
SETS.put("one_run_of_open", identity("submission_division", "open"), "one division")
SETS.put("one_run_of_closed", identity("submission_division", "closed"), "one division")
SETS.put(
    "one_run_of_another_benchmark", identity("submission_benchmark", "minigo"), "one benchmark"
)


SETS.put("one_run_of_another_status", identity("submission_status", "preview"), "one status")
SETS.put(
    "one_run_on_another_platform", identity("submission_platform", "another box"), "one system"
)
SETS.put("one_run_of_another_data_set", identity("train_samples", 1000), "one data set")


@SETS.add("one round")
def one_run_in_the_other_dialect(a_set: TrainingSet) -> bool:
    return a_set.change(
        1, lambda log: log.edit(lambda record: record.in_other_dialect(), *log.records)
    )


def borrowed(a_set: TrainingSet, same_round: bool, same_benchmark: bool) -> Iterator[Path]:
    """Find other sets' runs."""
    corpus, mine = a_set.origin.parents[4], a_set.log(0)
    for path in sorted(corpus.glob("training_v0.[67]/*/results/*/*/result_1.txt")):
        near = path.parents[4] == a_set.origin.parents[3]
        alike = path.parent.name.replace("maskrcnn", "mask") == a_set.folder.name.replace(
            "maskrcnn", "mask"
        )
        if (
            mine.records
            and path.parent != a_set.origin
            and near == same_round
            and alike == same_benchmark
            and path.parents[3].name != "Alibaba"
        ):
            yield path


def with_a_run_of(
    same_round: bool, same_benchmark: bool, same_org: bool
) -> Callable[[TrainingSet], bool]:
    """Put another set's run in."""

    def change(a_set: TrainingSet) -> bool:
        found = (
            path
            for path in borrowed(a_set, same_round, same_benchmark)
            if (path.parents[3].name == a_set.home.name) == same_org
        )
        return (path := next(found, None)) is not None and a_set.undo.copy(path, a_set.runs[1])

    return change


SETS.put("run_of_another_round", with_a_run_of(False, True, False), "one round")
SETS.put("run_of_another_submitter", with_a_run_of(True, True, False), "one organisation")
SETS.put("run_of_another_folder", with_a_run_of(True, False, True), "one benchmark")


def file_becomes(content: bytes) -> Callable[[TrainingSet], bool]:
    """Write something over a run."""
    return lambda a_set: a_set.undo.write(a_set.runs[1], content)


SETS.put("one_run_empty", file_becomes(b""), "a log")
SETS.put("one_run_of_garbage", file_becomes(bytes(range(256)) * 8), "a log")
SETS.put("one_run_without_records", file_becomes(b"Epoch 1\nEpoch 2\n"), "a log")


@SETS.add("a whole log")
def one_run_cut(a_set: TrainingSet) -> bool:
    content = a_set.runs[1].read_bytes()
    return a_set.undo.write(a_set.runs[1], content[: len(content) * 2 // 3])


@SETS.add("one byte a character")
def one_run_in_utf16(a_set: TrainingSet) -> bool:
    text = a_set.runs[1].read_bytes().decode("latin-1")
    return a_set.undo.write(a_set.runs[1], text.encode("utf-16"))


@SETS.add("a link to nothing is no log")
def a_broken_link_in_place_of_a_run(a_set: TrainingSet) -> bool:
    return a_set.undo.link(a_set.runs[1], "nowhere.txt")


@SETS.add("a folder is no log")
def a_folder_in_place_of_a_run(a_set: TrainingSet) -> bool:
    path = a_set.runs[1]
    return a_set.undo.delete(path) and a_set.undo.write(path / "keep", b"x")


@SETS.add("each log's run is broken by its own rules, the set too")
def one_run_with_a_lie(a_set: TrainingSet) -> bool:
    return a_set.change(1, lambda log: log.edit(capped(log, 0.02), *last(log)))


@SETS.add("a run's clock goes forward")
def one_run_with_a_backward_clock(a_set: TrainingSet) -> bool:
    def change(log: Log) -> bool:
        begin = log.records[log.of_key("run_start")[0]].seconds
        return log.edit(lambda record: record.at(begin - math.pi), *log.of_key("run_stop"))

    return a_set.change(1, change)
