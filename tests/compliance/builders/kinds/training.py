"""For each rule about published training results one small result that keeps it and one that breaks
it.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from making_training import (
    ADAM,
    DIFFUSED_MS,
    LARS_V06,
    LATE_MS,
    START_MS,
    Change,
    Record,
    describe,
    diffused,
    double,
    drop,
    later,
    measured,
    move,
    new,
    old,
    older,
    put,
    run,
)

Builder = Callable[[Path], object]
RUNS: Final = 5
HOUR_MS: Final = 3_600_000
LIFETIME_MS: Final = 70 * 365 * 24 * HOUR_MS


def text(content: str) -> Builder:
    """A folder with one log."""
    return lambda folder: (folder / "result_0.txt").write_text(content)


def log(
    change: Change = lambda records: records,
    *,
    epochs: bool = False,
    write: Callable[[Sequence[Record]], str] = new,
    **told: Any,
) -> Builder:
    """A folder with the log of one run, changed."""
    return text(write(change(run(epochs=epochs, **told))))


def translated(change: Change = lambda records: records) -> Builder:
    """A folder with the log of a translation."""
    return log(change, benchmark="transformer", settings=ADAM, scores=(0.21, 0.24, 0.2512), every=1)


def set_of(
    *changes: tuple[int, Change],
    runs: int = RUNS,
    first: int = 0,
    gap_ms: int = HOUR_MS,
    **told: Any,
) -> Builder:
    """A set of runs, some of them changed."""

    def build(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(first, first + runs):
            records = run(
                number=number,
                scores=(0.42 + number / 1000, 0.55 + number / 999, 0.7601 + number / 1000),
                **told,
            )
            for which, change in changes:
                records = change(records) if which == number else records
            (folder / f"result_{number}.txt").write_text(new(records, START_MS + number * gap_ms))

    return build


def lately(change: Change = lambda records: records, **told: Any) -> Builder:
    """A folder with the log of one run of v5.1, changed."""
    return text(new(change(measured(**told)), LATE_MS))


def checkpoints(change: Change = lambda records: records) -> Builder:
    """A folder with the log of one run of v5.0 whose checkpoints were evaluated later, changed."""
    return text(new(change(diffused()), DIFFUSED_MS))


def lately_set(evaluations: int) -> Builder:
    """A set of v5.1 whose runs all need as many evaluations."""

    def build(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(2 * RUNS):
            (folder / f"result_{number}.txt").write_text(
                new(
                    measured(number=number, evaluations=evaluations, brief=True),
                    LATE_MS + number * HOUR_MS,
                )
            )

    return build


def trained_again(records: list[Record]) -> list[Record]:
    """A block that was trained behind the end of the run of v5.1."""
    end = records[-1].after_ms
    return [
        *records,
        Record("block_start", None, end + 10, {"samples_count": 0}),
        Record("block_stop", None, end + 9000, {"samples_count": 9}),
    ]


def stated(rate: float) -> Change:
    """State so many samples per second with each evaluation of a run of v5.1."""

    def change(records: list[Record]) -> list[Record]:
        out: list[Record] = []
        for record in records:
            out.append(record)
            if record.key == "eval_accuracy":
                done = {"step": record.metadata["samples_count"]}
                out.append(Record("tracked_stats", {"throughput": rate}, record.after_ms, done))
        return out

    return change


def lately_stated(*rates: float) -> Builder:
    """A set of v5.1 whose runs state these rates."""

    def build(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(2 * RUNS):
            rate = rates[min(number, len(rates) - 1)]
            (folder / f"result_{number}.txt").write_text(
                new(
                    stated(rate)(measured(number=number, evaluations=15, brief=True)),
                    LATE_MS + number * HOUR_MS,
                )
            )

    return build


def tree(*then: Callable[[Path], object], benchmark: str = "resnet") -> Builder:
    """The tree of an organisation with one system and one set, and what is done to it then."""

    def build(folder: Path) -> None:
        home = folder / "acme"
        set_of()(home / "results" / "box" / benchmark)
        describe(home)
        for step in then:
            step(home)

    return build


def edit(name: str, before: str, after: str) -> Callable[[Path], object]:
    """Replace text in a file of the organisation."""

    def step(home: Path) -> None:
        path = home / name
        content = path.read_text()
        assert before in content, before
        path.write_text(content.replace(before, after))

    return step


def rename(name: str, other: str) -> Callable[[Path], object]:
    """Give a file or folder another place."""
    return lambda home: (home / name).rename(home / other)


def flatten(home: Path) -> None:
    """Move the logs of the only set up to their system."""
    for path in sorted((home / "results/box/resnet").iterdir()):
        path.rename(home / "results/box" / path.name)
    (home / "results/box/resnet").rmdir()


def copied(folder: Path) -> None:
    """A set in which one run stands for two, with a seed of its own."""
    set_of()(folder)
    (folder / "result_3.txt").write_text(
        (folder / "result_2.txt").read_text().replace('"value": 102', '"value": 103')
    )


def nothing_filed(folder: Path) -> None:
    """An organisation with a description, in a tree whose name tells the round."""
    home = folder / "training_v0.7" / "acme"
    describe(home)
    (home / "results").mkdir()
    (home / "results" / ".keep").touch()


def trained_on(records: list[Record]) -> list[Record]:
    """An epoch that was trained behind the end of the run."""
    end = records[-1].after_ms
    return [
        *records,
        Record("epoch_start", None, end + 10, {"epoch_num": 9}),
        Record("epoch_stop", None, end + 9000, {"epoch_num": 9}),
    ]


MISSED: Final = put("run_stop", metadata={"status": "aborted"})
LOW: Final = put("eval_accuracy", -1, value=0.7)
FIRST: Final = "results/box/resnet/result_0.txt"

TRAINING_BASES: Final[Mapping[str, Builder]] = {
    "trained-v0.7": log(),
    "trained-v0.7-epochs": log(epochs=True),
    "trained-v0.7-translation": translated(),
    "trained-v0.6": log(write=old, settings=LARS_V06, samples=False),
    "trained-set": set_of(),
    "trained-v5.1": lately(),
    "trained-v5.1-set": lately_set(15),
    "trained-tree": tree(),
}
TRAINING_KINDS: Final = {"log": "trained-v0.7", "runs": "trained-set", "org": "trained-tree"}
TRAINING_VALID: Final[Mapping[str, str | Builder]] = {
    "log.epochs": "trained-v0.7-epochs",
    "log.paired": "trained-v0.7-epochs",
    "log.method": "trained-v0.7-translation",
    "log.older": "trained-v0.6",
    "log.total": text(older()),
    "org.empty": "trained-tree",
    "runs.benchmark": "trained-tree",
    "runs.flat": "trained-tree",
    "log.place": "trained-tree",
    "log.division": "trained-tree",
    "log.rates": "trained-v5.1",
    "log.interval": "trained-v5.1",
    "log.checkpoint": checkpoints(),
    "log.disclosure": "trained-v5.1",
    "log.speed": lately(stated(204.8)),
    "runs.speed": lately_stated(204.8),
    "runs.convergence": "trained-v5.1-set",
}
TRAINING_INVALID: Final[Mapping[str, Builder]] = {
    # one log: who ran what
    "log.dialect": text(new(run()[:20]) + old(run()[20:])),
    "log.older": text(older()),
    "log.identity": log(double("submission_org", value="globex")),
    "log.names": log(put("submission_status", value="somewhere")),
    "log.present": log(drop("run_stop")),
    "log.event_type": text(
        new(run()).replace(
            '"POINT_IN_TIME", "key": "run_stop"', '"INTERVAL_START", "key": "run_stop"'
        )
    ),
    "log.once": log(double("run_start", later=50)),
    "log.samples": log(drop("eval_samples")),
    "log.sizes": log(put("train_samples", value=1_281_024)),
    "log.place": tree(
        edit(FIRST, '"submission_org", "value": "acme"', '"submission_org", "value": "globex"')
    ),
    "log.division": tree(
        edit(
            FIRST,
            '"submission_division", "value": "closed"',
            '"submission_division", "value": "open"',
        )
    ),
    # one log: order and clock
    "log.clock": log(put("eval_accuracy", later=-30_000)),
    "log.span": log(put("block_start", after_ms=8000)),
    "log.order": log(move("init_stop", "run_start")),
    "log.init": log(later("init_stop", 1_300_000)),
    "log.cache": log(move("cache_clear", "block_start")),
    "log.uncleared": log(put("cache_clear", value=None)),
    "log.after": log(trained_on),
    "log.total": text(older(minutes=6.0)),
    "log.date": text(new(run(), START_MS + LIFETIME_MS)),
    "log.rounded": log(
        lambda records: [
            replace(record, after_ms=record.after_ms // 1000 * 1000) for record in records
        ]
    ),
    "log.result": text(new(run()) + "RESULT,IMAGE_CLASSIFICATION,,100,,2020-05-20 06:40:00 PM\n"),
    # one log: blocks, epochs, evaluations
    "log.metadata": log(put("block_start", metadata={"epoch_count": 0})),
    "log.epochs": log(
        lambda records: drop("epoch_stop", 2)(drop("epoch_start", 2)(records)), epochs=True
    ),
    "log.unevaluated": log(
        lambda records: drop("eval_start", 0)(
            drop("eval_accuracy", 0)(drop("eval_stop", 0)(records))
        )
    ),
    "log.paired": log(drop("epoch_stop", 3), epochs=True),
    "log.schedule": log(every=5),
    # one log: quality
    "log.accuracy": log(put("eval_accuracy", value=42.0)),
    "log.plausible": log(scores=(0.42, 0.95)),
    "log.instant": log(put("eval_stop", later=-2001)),
    "log.status": log(put("run_stop", metadata={"status": "done"})),
    "log.target": log(LOW),
    "log.stopped": log(scores=(0.76, 0.761)),
    "log.converged": log(lambda records: MISSED(LOW(records))),
    # one log: hyper-parameters
    "log.hyperparameters": log(drop("lars_epsilon")),
    "log.seed": log(double("seed", value=101)),
    "log.constant": log(double("lars_opt_base_learning_rate", value=13.0)),
    "log.batch": log(put("global_batch_size", value=4096.5)),
    "log.legality": log(put("lars_opt_weight_decay", value=0.0003)),
    "log.method": translated(put("max_sequence_length", metadata={"method": "forget"})),
    # one log since v1.0
    "log.rates": lately(put("opt_base_learning_rate", value=-0.0009)),
    "log.interval": lately(every=61_440),
    "log.checkpoint": checkpoints(put("run_stop", later=-40_000)),
    "log.speed": lately(stated(150.0)),
    "log.disclosure": text(new(measured(), LATE_MS + 365 * 24 * HOUR_MS)),
    # sets
    "runs.convergence": lately_set(13),
    "runs.speed": lately_stated(204.8, 1024.0, 204.8),
    "runs.count": set_of(runs=4),
    "runs.numbers": set_of(first=2),
    "runs.others": lambda folder: (
        set_of()(folder),
        (folder / "result_5.txt.orig").write_text("as it was\n"),
    ),
    "runs.flat": tree(flatten),
    "runs.power": lambda folder: (set_of()(folder), (folder / "power").mkdir()),
    "runs.benchmark": tree(rename("results/box/resnet", "results/box/resent")),
    "runs.distinct": copied,
    "runs.seeds": set_of((1, put("seed", value=100))),
    "runs.hyperparameters": set_of((1, put("lars_opt_base_learning_rate", value=13.0))),
    "runs.identity": set_of((1, put("submission_platform", value="2xbox"))),
    "runs.converged": set_of(
        (1, lambda records: MISSED(LOW(records))), (3, lambda records: MISSED(LOW(records)))
    ),
    "runs.overlap": set_of(gap_ms=1000),
    # organisations
    "org.described": tree(lambda home: (home / "systems/box.json").unlink()),
    "org.description": tree(lambda home: describe(home, submitter="globex")),
    "org.fields": tree(lambda home: describe(home, framework=...)),
    "org.counts": tree(lambda home: describe(home, number_of_nodes="-4")),
    "org.division": tree(lambda home: describe(home, division="open")),
    "org.folders": tree(
        lambda home: ((home / "results/box/ssd").mkdir(), (home / "results/box/ssd/.keep").touch())
    ),
    "org.empty": nothing_filed,
    "org.idle": tree(lambda home: describe(home, "other")),
    "org.repeated": tree(
        lambda home: shutil.copytree(home / "results/box", home / "results/crate"),
        lambda home: describe(home, "crate"),
    ),
}
