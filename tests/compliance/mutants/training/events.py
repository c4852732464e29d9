"""Mutants of one training log: events that are missing, come twice, or lie in the wrong place."""

from collections.abc import Callable
from dataclasses import replace

from ..kinds import Kinds
from .log import Log, Record

EVENTS: Kinds[Log] = Kinds()
IDENTITY = (
    "submission_benchmark",
    "submission_org",
    "submission_division",
    "submission_status",
    "submission_platform",
)
ONCE = ("init_start", "init_stop", "run_start", "run_stop", "cache_clear")
PAIRED = (
    "epoch_start",
    "epoch_stop",
    "block_start",
    "block_stop",
    "eval_start",
    "eval_stop",
    "eval_accuracy",
)


def without(key: str) -> Callable[[Log], bool]:
    """Take all records of a kind out."""
    return lambda log: log.delete(*log.of_key(key))


def without_first(start: str) -> Callable[[Log], bool]:
    """Take the first start out; not where stops are numbered otherwise than starts."""

    def change(log: Log) -> bool:
        found, stops = log.of_key(start)[:1], log.of_key(start.replace("start", "stop"))[:1]
        numbers = {log.records[index].number for index in (*found, *stops)}
        return len(numbers) == 1 and log.delete(*found)

    return change


def without_one(key: str) -> Callable[[Log], bool]:
    """Take one record out of the middle."""
    return lambda log: (index := log.middle(key)) is not None and log.delete(index)


def twice(key: str, change: Callable[[Record], Record]) -> Callable[[Log], bool]:
    """Write a record again right after itself."""
    return lambda log: (
        bool(found := log.of_key(key)) and log.insert(found[-1] + 1, change(log.records[found[-1]]))
    )


def twice_in_the_middle(key: str) -> Callable[[Log], bool]:
    """Write a record of the middle again."""
    return lambda log: (
        (index := log.middle(key)) is not None and log.insert(index + 1, log.records[index])
    )


def of_new_logs(change: Callable[[Log], bool]) -> Callable[[Log], bool]:
    """Only in logs of v0.7."""
    return lambda log: not log.old and change(log)


def other(record: Record) -> Record:
    """Give a record another value."""
    return Record(
        **{
            **{name: getattr(record, name) for name in Record.__dataclass_fields__},
            "value": f"{record.value}x",
        }
    )


EVENTS.made((*IDENTITY, *ONCE), without, "missing", "required in each log")
EVENTS.made(
    ("train_samples", "eval_samples"),
    lambda key: of_new_logs(without(key)),
    "missing",
    "required in each log since v0.7",
)
EVENTS.made(PAIRED, without_one, "gap", "no gap in the middle")
EVENTS.made(
    ("block_start", "epoch_start", "eval_start"),
    without_first,
    "first_missing",
    "no gap at the start",
)
EVENTS.made(
    ("block_stop", "epoch_stop"),
    lambda key: of_new_logs(without(key)),
    "never",
    "what starts also stops",
)
EVENTS.put("never_eval_stop", without("eval_stop"), "what starts also stops")
EVENTS.made(
    ("init_stop", "run_start", "run_stop"),
    lambda key: twice(key, lambda record: record),
    "twice",
    "exactly once",
)
EVENTS.made(
    ("init_stop", "run_start", "run_stop"),
    lambda key: twice(key, lambda record: record.later(30)),
    "twice_later",
    "exactly once",
)
EVENTS.made(IDENTITY, lambda key: twice(key, other), "two_values", "one value")
EVENTS.made(
    PAIRED,
    twice_in_the_middle,
    "repeated",
    "each once",
)


@EVENTS.add("each run evaluates")
def missing_all_accuracies(log: Log) -> bool:
    return log.delete(*log.of_key("eval_accuracy"))


@EVENTS.add("the target is reached in the last evaluation")
def missing_last_accuracy(log: Log) -> bool:
    before = [index for index in log.of_key("eval_accuracy") if index < log.of_key("run_stop")[0]]
    last = log.records[before[-1]].number
    return len(before) > 1 and log.delete(
        *(index for index in before if log.records[index].number == last)
    )


@EVENTS.add("a log has epochs or blocks")
def missing_epochs_and_blocks(log: Log) -> bool:
    return log.delete(*log.of_key("epoch_start", "epoch_stop", "block_start", "block_stop"))


@EVENTS.add("evaluated at least every 4 epochs (resnet), every epoch (maskrcnn, gnmt, transformer)")
def missing_evaluation(log: Log) -> bool:
    evaluations = list(log.evaluations())
    return (
        len(evaluations) >= 3
        and log.benchmark != "ssd"
        and log.delete(*evaluations[len(evaluations) // 2])
    )


@EVENTS.add("evaluated at least every 4 epochs (resnet), every epoch (maskrcnn, gnmt, transformer)")
def missing_first_half_of_evaluations(log: Log) -> bool:
    evaluations = list(log.evaluations())
    return (
        len(evaluations) >= 4
        and log.benchmark != "ssd"
        and log.delete(*sum(evaluations[: len(evaluations) // 2], []))
    )


@EVENTS.add("each epoch is evaluated as often as the first ones")
def missing_first_evaluation(log: Log) -> bool:
    evaluations = list(log.evaluations())
    return len(evaluations) >= 2 and log.delete(*evaluations[0])


def missing_pair(what: str) -> Callable[[Log], bool]:
    """Take a start in the middle and its stop out."""

    def change(log: Log) -> bool:
        keys = (f"{what}_start", f"{what}_stop")
        if (index := log.centre(keys[0])) is None:
            return False
        number = log.records[index].number
        return log.delete(*(at for at in log.of_key(*keys) if log.records[at].number == number))

    return change


for what in ("epoch", "block"):
    EVENTS.put(f"missing_{what}", missing_pair(what), "no gap in the middle")


@EVENTS.add("each evaluation once")
def repeated_evaluation(log: Log) -> bool:
    evaluations = list(log.evaluations())
    if len(evaluations) < 5:
        return False
    middle = evaluations[len(evaluations) // 2]
    again = [log.records[index].at(log.records[middle[-1]].seconds) for index in middle]
    return log.insert(middle[-1] + 1, *again)


@EVENTS.add("one division")
def second_division_open(log: Log) -> bool:
    return log.closed and twice(
        "submission_division", lambda record: replace(record, value="open")
    )(log)


@EVENTS.add("exactly once")
def stopped_twice_with_other_status(log: Log) -> bool:
    return twice("run_stop", lambda record: record.later(1).where(status="aborted"))(log)


@EVENTS.add("the stop comes after the start")
def stop_before_start(log: Log) -> bool:
    start, stop = log.of_key("run_start")[0], log.of_key("run_stop")[0]
    begin = log.records[start].seconds
    return log.move([stop], start, lambda record: record.at(begin - 1))


@EVENTS.add("run events are in the order of their times")
def stop_line_before_last_evaluation(log: Log) -> bool:
    last = list(log.evaluations())[-1]
    return log.move(log.of_key("run_stop"), last[0])


@EVENTS.add("the stop comes after the start")
def stop_line_before_start_line(log: Log) -> bool:
    return log.move(log.of_key("run_stop"), log.of_key("run_start")[0])


@EVENTS.add("the run starts before the first epoch")
def start_after_first_epochs(log: Log) -> bool:
    second = log.of_key("block_start", "epoch_start")[1:]
    if not second:
        return False
    begin = log.records[second[0]].seconds
    return log.move(log.of_key("run_start"), second[0] + 1, lambda record: record.at(begin + 0.01))


@EVENTS.add("run events are in the order of their times")
def start_line_behind_a_block(log: Log) -> bool:
    blocks = log.of_key("block_start")
    return len(blocks) > 1 and log.move(log.of_key("run_start"), blocks[1] + 1)


@EVENTS.add("initialisation ends before the run starts")
def init_stop_after_start(log: Log) -> bool:
    start = log.of_key("run_start")[0]
    begin = log.records[start].seconds
    epoch = log.of_key("block_start", "epoch_start")
    return len(epoch) > 1 and log.move(
        log.of_key("init_stop"),
        epoch[1] + 1,
        lambda record: record.at(max(begin + 20, log.records[epoch[1]].seconds)),
    )


@EVENTS.add("initialisation starts before it ends, and before the run")
def init_after_run(log: Log) -> bool:
    end = log.records[log.of_key("run_stop")[0]].seconds
    return log.move(
        log.of_key("init_start", "init_stop"), len(log.lines), lambda record: record.at(end + 1)
    )


@EVENTS.add("initialisation starts before it ends")
def init_start_after_init_stop(log: Log) -> bool:
    stop = log.of_key("init_stop")[0]
    end = log.records[stop].seconds
    return log.move(log.of_key("init_start"), stop + 1, lambda record: record.at(end + 0.5))


@EVENTS.add("caches are cleared before the run")
def cache_cleared_after_start(log: Log) -> bool:
    places = log.of_key("block_start", "epoch_start")
    begin = log.records[log.of_key("run_start")[0]].seconds
    return len(places) > 1 and log.move(
        log.of_key("cache_clear"), places[1], lambda record: record.at(begin + 30)
    )


@EVENTS.add("caches are cleared before the run")
def cache_cleared_after_stop(log: Log) -> bool:
    end = log.records[log.of_key("run_stop")[0]].seconds
    return log.move(log.of_key("cache_clear"), len(log.lines), lambda record: record.at(end + 1))


@EVENTS.add("the evaluation that counts ends before the run stops")
def last_evaluation_after_stop(log: Log) -> bool:
    evaluations = list(log.evaluations())
    stop = log.of_key("run_stop")[0]
    end = log.records[stop].seconds
    return (
        len(evaluations) > 1
        and max(evaluations[-1]) < stop
        and log.move(evaluations[-1], len(log.lines), lambda record: record.at(end + 5))
    )


@EVENTS.add("nothing is trained after the stop")
def epochs_after_stop(log: Log) -> bool:
    found = log.of_key("epoch_start", "epoch_stop", "block_start", "block_stop")
    half = found[len(found) // 2 :]
    end = log.records[log.of_key("run_stop")[0]].seconds
    return len(found) >= 6 and log.move(half, len(log.lines), lambda record: record.at(end + 5))


def trained_behind_stop(what: str) -> Callable[[Log], bool]:
    """Train epoch 99 behind the end of the run."""

    def change(log: Log) -> bool:
        last = [log.of_key(f"{what}_{end}")[-1:] for end in ("start", "stop")]
        stop = log.one("run_stop")
        if log.old or stop is None or not all(last):
            return False
        field = "first_epoch_num" if what == "block" else "epoch_num"
        again = [
            log.records[index].where(**{field: 99}).at(stop.seconds + 5 * (place + 1))
            for place, (index,) in enumerate(last)
        ]
        return log.insert(len(log.lines), *again)

    return change


for what in ("epoch", "block"):
    EVENTS.put(
        f"another_{what}_behind_stop",
        trained_behind_stop(what),
        "nothing is trained after the stop",
    )


@EVENTS.add("the run ends after its last evaluation")
def stop_in_the_middle_of_the_file(log: Log) -> bool:
    if (index := log.centre("eval_accuracy")) is None:
        return False
    time = log.records[index].seconds
    return log.move(log.of_key("run_stop"), index + 1, lambda record: record.at(time + 0.001))


@EVENTS.add("nothing is trained before the start")
def epochs_before_start(log: Log) -> bool:
    first = log.of_key("epoch_start", "epoch_stop", "block_start", "block_stop")[:2]
    start = log.of_key("run_start")[0]
    begin = log.records[start].seconds
    return min(first) > start and log.move(first, start, lambda record: record.at(begin - 5))


def turned(start: str, stop: str) -> Callable[[Log], bool]:
    """Let a pair in the middle end before it starts, at the times of the file."""

    def change(log: Log) -> bool:
        index = log.middle(start)
        other = next(
            (
                at
                for at in log.of_key(stop)
                if index is not None and log.records[at].number == log.records[index].number
            ),
            None,
        )
        if index is None or other is None:
            return False
        first, second = log.records[index], log.records[other]
        return log.edit(lambda _: replace(second, time=first.time), index) and log.edit(
            lambda _: replace(first, time=second.time), other
        )

    return change


for what in ("epoch", "block", "eval"):
    EVENTS.put(
        f"turned_{what}", turned(f"{what}_start", f"{what}_stop"), "a start comes before its stop"
    )
