"""Mutants of one training log in the older text form: `MLPerf: resnet [06/13/19 00:30:57], key:
value`.
"""

import re
from collections.abc import Callable

from ..kinds import Kinds

Change = Callable[[list[str]], bool]
OLDEST: Kinds[list[str]] = Kinds()
"""They change lists of lines."""


def lines_of(lines: list[str], key: str) -> list[int]:
    """Find the lines of a key."""
    return [index for index, line in enumerate(lines) if re.search(rf"\], {key}\b", line)]


def dropped(key: str, *which: int) -> Change:
    """Take lines of a key out; all where none is named."""

    def change(lines: list[str]) -> bool:
        found = lines_of(lines, key)
        chosen = [found[index] for index in which] if which else found
        for index in sorted(chosen, reverse=True):
            del lines[index]
        return bool(found)

    return change


def replaced(key: str, old: str, new: str, which: int = -1) -> Change:
    """Change one line of a key."""

    def change(lines: list[str]) -> bool:
        index = lines_of(lines, key)[which]
        lines[index], count = re.subn(old, new, lines[index])
        return bool(count)

    return change


def put_again(key: str, which: int = -1) -> Change:
    """Write a line again after itself."""

    def change(lines: list[str]) -> bool:
        index = lines_of(lines, key)[which]
        lines.insert(index + 1, lines[index])
        return True

    return change


DATE = r"\[\d+/\d+/\d+ [\d:]+\]"
ACCURACY = r'"value": [\d.]+%'
KINDS: dict[str, Change] = {
    "missing_run_start": dropped("run_start"),
    "missing_run_stop": dropped("run_stop"),
    "missing_all_accuracies": dropped("eval_accuracy"),
    "missing_epochs": dropped("train_epoch"),
    "gap_train_epoch": dropped("train_epoch", 30),
    "gap_eval_start": dropped("eval_start", 5),
    "gap_eval_stop": dropped("eval_stop", 5),
    "gap_eval_accuracy": dropped("eval_accuracy", 5),
    "missing_batch": dropped("input_batch_size"),
    "last_accuracy_text": replaced("eval_accuracy", ACCURACY, '"value": good'),
    "last_accuracy_negative": replaced("eval_accuracy", ACCURACY, '"value": -75.98000%'),
    "last_accuracy_beyond_one": replaced("eval_accuracy", ACCURACY, '"value": 175.98000%'),
    "middle_accuracy_text": replaced("eval_accuracy", ACCURACY, '"value": nan%', 5),
    "stop_a_minute_before_start": replaced("run_stop", DATE, "[06/13/19 00:29:00]"),
    "stop_after_half_the_time": replaced("run_stop", DATE, "[06/13/19 00:40:00]"),
    "run_stop_time_is_text": replaced("run_stop", DATE, "[yesterday]"),
    "backwards_train_epoch": replaced("train_epoch", DATE, "[06/12/19 00:40:00]", 40),
    "backwards_eval_accuracy": replaced("eval_accuracy", DATE, "[06/12/19 00:40:00]", 5),
    "forwards_eval_accuracy": replaced("eval_accuracy", DATE, "[06/14/19 00:40:00]", 5),
    "train_epoch_number_off": replaced("train_epoch", r"train_epoch:\d+", "train_epoch:3", 40),
    "train_epoch_again": put_again("train_epoch", 40),
    "eval_accuracy_number_off": replaced("eval_accuracy", r'"epoch": \d+', '"epoch": 3', 10),
    "twice_run_stop": put_again("run_stop"),
    "repeated_eval_start": put_again("eval_start", 5),
    "batch_zero": replaced("input_batch_size", r": \d+$", ": 0"),
    "batch_negative": replaced("input_batch_size", r": \d+$", ": -256"),
    "batch_text": replaced("input_batch_size", r": \d+$", ": large"),
    "total_runtime_halved": replaced("Total runtime", r"[\d.]+ minutes", "12.204881 minutes"),
    "total_runtime_text": replaced("Total runtime", r"[\d.]+ minutes", "few minutes"),
    "total_runtime_negative": replaced("Total runtime", r": [\d.]+ minutes", ": -24.4 minutes"),
}
for name, change in KINDS.items():
    OLDEST.put(f"oldest_{name}", change, "as for the newer forms")


@OLDEST.add("evaluated at least every 4 epochs")
def oldest_missing_evaluation(lines: list[str]) -> bool:
    for key in ("eval_start", "eval_accuracy", "eval_stop"):
        del lines[lines_of(lines, key)[5]]
    return True


@OLDEST.add("a whole log")
def oldest_file_half(lines: list[str]) -> bool:
    del lines[len(lines) * 9 // 10 :]
    return True
