"""Mutations of a published set in its tree: name -> what is done to the set's folder, below an
organisation's.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from log_text import Row, Unfit, of, parse, pick, settings_of, written

Mutation = Callable[[Path], object]
HOUR_S: Final = 3600.0


def logs(folder: Path) -> list[Path]:
    """The logs of a set, by number."""
    return sorted(folder.glob("result_*.txt"), key=lambda path: int(path.stem[7:]))


def rewrite(path: Path, change: Callable[[list[Row]], object]) -> None:
    """Change the records of a log."""
    rows = parse(path.read_text("latin-1"))
    change(rows)
    path.write_text(written(rows), "latin-1")


def one(key: str, told: Any, which: int = 1) -> Mutation:
    """Give an event another value in one run."""

    def mutate(folder: Path) -> None:
        def change(rows: list[Row]) -> None:
            if not of(rows, key) or of(rows, key)[0].table["value"] == told:
                raise Unfit
            for row in of(rows, key):
                row.table["value"] = told

        rewrite(logs(folder)[which], change)

    return mutate


def shifted(rows: list[Row], seconds: float = HOUR_S) -> None:
    """Move all times."""
    for row in rows:
        if row.key and row.seconds > 0:
            row.later(seconds)


def copied(change: Callable[[list[Row]], object] = lambda rows: None) -> Mutation:
    """Put a changed copy of one run in the place of another."""

    def mutate(folder: Path) -> None:
        first, second = logs(folder)[:2]
        shutil.copy(first, second)
        rewrite(second, change)

    return mutate


def reseeded(rows: list[Row]) -> None:
    """Move all times, and draw another seed."""
    shifted(rows)
    for row in of(rows, "seed"):
        row.table["value"] = 424242


def fail(rows: list[Row]) -> None:
    """Let a run miss its target, and say so."""
    pick(rows, "run_stop").metadata["status"] = "aborted"
    last = of(rows, "eval_accuracy")[-1]
    told = last.table["value"]
    if isinstance(told, dict):
        (told.get("accuracy") or told)["BBOX"] = 0.1
    elif isinstance(told, list):
        told[0] = 0.1
    else:
        last.table["value"] = float(told) * 0.5


def failed(*which: int) -> Mutation:
    """Let runs miss their target."""

    def mutate(folder: Path) -> None:
        for path in (logs(folder)[index] for index in which):
            if settings_of(parse(path.read_text("latin-1"))).get("run_stop", "") is None:
                rewrite(path, fail)

    return mutate


def same_seed(folder: Path) -> None:
    """Give two runs one seed."""
    told = settings_of(parse(logs(folder)[0].read_text("latin-1"))).get("seed")
    if told is None:
        raise Unfit
    one("seed", told)(folder)


def renumbered(folder: Path) -> None:
    """Leave out a number."""
    last = logs(folder)[-1]
    last.rename(last.with_name(f"result_{int(last.stem[7:]) + 7}.txt"))


def extra(folder: Path) -> None:
    """Put one more run into the set: the first one, an hour later, with results of its own."""
    last = logs(folder)[-1]
    path = last.with_name(f"result_{int(last.stem[7:]) + 1}.txt")
    shutil.copy(logs(folder)[0], path)
    rewrite(path, lambda rows: shifted(rows, 7777.0))


def other_round(folder: Path) -> None:
    """Write one run in the other round's dialect."""

    def change(rows: list[Row]) -> None:
        for row in rows:
            if row.key and row.new:
                row.new, row.table = False, {"value": row.table["value"], "metadata": row.metadata}
            elif row.key:
                row.new, row.table = (
                    True,
                    {
                        "key": row.key,
                        "time_ms": round(row.seconds * 1000),
                        **row.table,
                    },
                )

    rewrite(logs(folder)[1], change)


def system_file(folder: Path) -> Path:
    """The description of the set's system."""
    return folder.parents[2] / "systems" / f"{folder.parent.name}.json"


def described(field: str, told: Any) -> Mutation:
    """Change a field of the system's description; `...` takes it out."""

    def mutate(folder: Path) -> None:
        path = system_file(folder)
        try:
            table = json.loads(path.read_text())
        except ValueError:
            raise Unfit from None
        if told is ...:
            table.pop(field)
        else:
            table[field] = told
        path.write_text(json.dumps(table))

    return mutate


def lines_of(field: str, told: str) -> Mutation:
    """Change a line of a description of v0.6 that is no JSON."""

    def mutate(folder: Path) -> None:
        text = system_file(folder).read_text()
        if text.startswith("{"):
            raise Unfit
        system_file(folder).write_text(
            re.sub(rf'^({field}: .*"value": )"[^"]*"', rf'\1"{told}"', text, flags=re.MULTILINE)
        )

    return mutate


def flat(folder: Path) -> None:
    """Move the logs up to their system."""
    for path in logs(folder):
        path.rename(folder.parent / path.name)
    folder.rmdir()


KINDS: Final[Mapping[str, Mutation]] = {
    "a run missing": lambda folder: logs(folder)[2].unlink(),
    "the last run missing": lambda folder: logs(folder)[-1].unlink(),
    "all runs but one missing": lambda folder: [path.unlink() for path in logs(folder)[1:]],
    "a run too many": extra,
    "a number left out": renumbered,
    "a run twice": copied(),
    "a run twice, at another time": copied(shifted),
    "a run twice, at another time, with another seed": copied(reseeded),
    "two runs of one seed": same_seed,
    "another batch size in one run": one("global_batch_size", 1234),
    "another batch size in the first run": one("global_batch_size", 1234, 0),
    "another learning rate in one run": one("opt_base_learning_rate", 0.02),
    "another learning rate of LARS in one run": one("lars_opt_base_learning_rate", 3.14),
    "another warm-up in one run": one("opt_learning_rate_warmup_steps", 321),
    "another weight decay in one run": one("lars_opt_weight_decay", 0.0004),
    "another length in one run": one("max_sequence_length", 51),
    "another span in one run": one("model_bn_span", 2),
    "another data set in one run": one("train_samples", 1000),
    "another benchmark in one run": one("submission_benchmark", "minigo"),
    "another organisation in one run": one("submission_org", "NVIDIA Corp"),
    "another division in one run": one("submission_division", "open"),
    "another status in one run": one("submission_status", "preview"),
    "another platform in one run": one("submission_platform", "another box"),
    "another round in one run": other_round,
    "two runs that failed": failed(1, 3),
    "all runs failed": failed(0, 1, 2, 3, 4),
    "an empty log": lambda folder: logs(folder)[1].write_text(""),
    "a log of noise": lambda folder: logs(folder)[1].write_text("Epoch 1\n" * 99),
    "a log of bytes": lambda folder: logs(folder)[1].write_bytes(bytes(range(256)) * 40),
    "a log in UTF-16": (
        lambda folder: logs(folder)[1].write_text(logs(folder)[1].read_text("latin-1"), "utf-16")
    ),
    "a folder for a log": lambda folder: (path := logs(folder)[1], path.unlink(), path.mkdir()),
    "a log cut in half": (
        lambda folder: logs(folder)[1].write_bytes(
            (data := logs(folder)[1].read_bytes())[: len(data) // 2]
        )
    ),
    "a broken link for a log": lambda folder: (
        path := logs(folder)[1],
        path.unlink(),
        path.symlink_to("nowhere.txt"),
    ),
    "no description of the system": lambda folder: system_file(folder).unlink(),
    "a description of something else": (
        lambda folder: system_file(folder).write_text('["a system"]')
    ),
    "a description that is no JSON": (
        lambda folder: system_file(folder).write_text('{"submitter": "x", ')
    ),
    "an empty description": lambda folder: system_file(folder).write_text(""),
    "another submitter": described("submitter", "Somebody Else"),
    "another submitter, in lines": lines_of("org", "Somebody Else"),
    "no submitter": described("submitter", ...),
    "an empty submitter": described("submitter", ""),
    "another division of the system": described("division", "ajar"),
    "another division of the system, in lines": lines_of("division", "open"),
    "no division of the system": described("division", ...),
    "no status of the system": described("status", ...),
    "an unknown status of the system": described("status", "sold out"),
    "no name of the system": described("system_name", ...),
    "no accelerator of the system": described("accelerator_model_name", ...),
    "no framework of the system": described("framework", ...),
    "a benchmark's folder misspelt": lambda folder: folder.rename(
        folder.with_name(folder.name + "z")
    ),
    "a benchmark's folder of another benchmark": lambda folder: folder.rename(
        folder.with_name("minigo")
    ),
    "logs without a benchmark's folder": flat,
    "another organisation's folder": (
        lambda folder: folder.parents[2].rename(folder.parents[2].with_name("Globex"))
    ),
}
