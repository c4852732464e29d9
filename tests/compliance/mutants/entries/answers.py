"""Mutants of inference entries: the accuracy log, and what accuracy.txt claims of it."""

import re
import struct
from collections.abc import Callable
from typing import Any, Final

from ..kinds import Kinds
from .kinds import ANSWERS, CLAIM, SUMMARY, Answer, Entry, half, once

ANSWERED: Kinds[Entry] = Kinds()
CLASSIFIED: Final = ("resnet", "mobilenet")


def claim(change: Callable[[str], str]) -> Callable[[Entry], bool]:
    """Change what is claimed."""
    return lambda entry: entry.undo.edit(entry.accuracy / CLAIM, change)


def number(pattern: str, change: Callable[[float], object]) -> Callable[[Entry], bool]:
    """Change a number of the claim."""
    return claim(
        lambda text: re.sub(pattern, lambda match: match[1] + str(change(float(match[2]))), text)
    )


def of_models(*models: str) -> Callable[[Callable[[Entry], bool]], Callable[[Entry], bool]]:
    """Only for these benchmarks."""
    return lambda change: lambda entry: entry.model in models and change(entry)


TOP1 = r"(accuracy=)([\d.]+)"
GOOD = r"(good=)(\d+)"
TOTAL = r"(total=)(\d+)"
MAP = r"(mAP=)([\d.]+)"
AP = r"(area=   all \| maxDets=100 \] = )(0\.\d+)"
ANY = r"((?:accuracy=)|(?:mAP=)|(?:BLEU: ))([\d.]+)"
ANSWERED.put(
    "claimed_a_little_more",
    number(TOP1, lambda part: round(part + 0.25, 3)),
    "the accuracy log's own accuracy",
)
ANSWERED.put(
    "claimed_a_point_more",
    number(TOP1, lambda part: round(part + 1, 3)),
    "the accuracy log's own accuracy",
)
ANSWERED.put(
    "claimed_more_good", number(GOOD, lambda part: int(part) + 100), "the accuracy log's own count"
)
ANSWERED.put(
    "claimed_one_more_good",
    number(GOOD, lambda part: int(part) + 1),
    "the accuracy log's own count",
)
ANSWERED.put(
    "claimed_other_total", number(TOTAL, lambda part: int(part) - 500), "the whole data set"
)
ANSWERED.put(
    "claimed_mean_precision_of_no_table",
    number(MAP, lambda part: round(part + 2, 3)),
    "the table above it",
)
ANSWERED.put("claimed_above_a_hundred", number(ANY, lambda _: 176.3), "at most 100 %")
ANSWERED.put(
    "claimed_a_hundredth", number(ANY, lambda part: round(part / 100, 6)), "the metric's unit"
)
ANSWERED.put(
    "claimed_a_hundred_times", number(ANY, lambda part: round(part * 100, 3)), "at most 100 %"
)
ANSWERED.put(
    "claimed_text",
    claim(lambda text: re.sub(ANY, lambda match: match[1] + "good", text)),
    "a number",
)
ANSWERED.put(
    "claimed_nan", claim(lambda text: re.sub(ANY, lambda match: match[1] + "nan", text)), "a number"
)
ANSWERED.put(
    "claimed_nothing",
    claim(
        lambda text: "".join(
            line for line in text.splitlines(keepends=True) if not re.search(ANY, line)
        )
    ),
    "an accuracy",
)
ANSWERED.put(
    "claimed_two_values",
    claim(
        lambda text: (
            text.rstrip()
            + "\n"
            + re.sub(ANY, lambda match: match[1] + "99.000", text.splitlines()[-1])
            + "\n"
        )
    ),
    "one accuracy",
)


@ANSWERED.add("closed: 99 % of the reference, mobilenet 98 %")
def claimed_below_threshold(entry: Entry) -> bool:
    return entry.closed and number(ANY, lambda part: round(part * 0.95, 3))(entry)


@ANSWERED.add("closed: 99 % of the reference, mobilenet 98 %")
def claimed_just_below_threshold(entry: Entry) -> bool:
    bound = {
        "resnet": 75.69,
        "mobilenet": 70.24,
        "ssd-small": 21.77,
        "ssd-large": 19.79,
        "gnmt": 23.6,
    }[entry.model]
    return entry.closed and number(ANY, lambda _: bound)(entry)


def changed(
    where: Callable[[int], bool], change: Callable[[Answer], Answer]
) -> Callable[[Entry], bool]:
    """Change some answers."""
    return lambda entry: entry.answers(
        lambda answers: [
            change(answer) if where(index) else answer for index, answer in enumerate(answers)
        ]
    )


def field_of(name: str, change: Callable[[Any], Any]) -> Callable[[Answer], Answer]:
    """Change a field of an answer."""
    return lambda answer: {**answer, name: change(answer[name])}


ANSWERED.put(
    "answer_missing", once(lambda entry: entry.answers(lambda answers: answers[:-1])), "each sample"
)
ANSWERED.put(
    "answers_of_a_thousand_missing",
    lambda entry: entry.answers(
        lambda answers: [answer for answer in answers if answer["qsl_idx"] >= 1000]
    ),
    "each sample",
)
ANSWERED.put(
    "half_of_the_answers_missing",
    lambda entry: entry.answers(lambda answers: answers[: len(answers) // 2]),
    "each sample",
)
ANSWERED.put("answers_missing", lambda entry: entry.answers(lambda answers: []), "each sample")
ANSWERED.put(
    "answer_twice",
    once(lambda entry: entry.answers(lambda answers: [*answers, answers[7]])),
    "each sample once",
)
ANSWERED.put(
    "answer_twice_in_anothers_place",
    once(
        lambda entry: entry.answers(
            lambda answers: [*answers[:-1], {**answers[-1], "qsl_idx": answers[7]["qsl_idx"]}]
        )
    ),
    "each sample once",
)
ANSWERED.put(
    "all_answers_twice",
    once(lambda entry: entry.answers(lambda answers: answers * 2)),
    "each sample once",
)
ANSWERED.put(
    "answer_twice_and_other",
    once(
        lambda entry: entry.answers(
            lambda answers: [*answers, {**answers[7], "data": answers[8]["data"]}]
        )
    ),
    "each sample once",
)
INDICES: Final[dict[str, Any]] = {
    "beyond": 10**6,
    "negative": -1,
    "text": "7",
    "null": None,
    "fraction": 7.5,
}


def always(value: Any) -> Callable[[Any], Any]:
    """Give one value for all."""
    return lambda _: value


for name, index in INDICES.items():
    ANSWERED.put(
        f"index_{name}",
        changed(lambda at: at == 11, field_of("qsl_idx", always(index))),
        "a sample of the data set",
    )
ANSWERED.put(
    "sequence_number_twice",
    changed(lambda at: at == 11, field_of("seq_id", always(3))),
    "each query once",
)
ANSWERED.put(
    "payload_of_odd_digits",
    changed(lambda at: at == 11, field_of("data", lambda data: data[:-1] if data else "F")),
    "bytes in hexadecimal",
)
ANSWERED.put(
    "payload_no_hexadecimal",
    changed(lambda at: at == 11, field_of("data", lambda data: "ZZ" + data[2:])),
    "bytes in hexadecimal",
)
ANSWERED.put("payload_number", changed(lambda at: at == 11, field_of("data", lambda _: 17)), "text")
ANSWERED.put(
    "payload_short",
    changed(lambda at: at % 9 == 3, field_of("data", lambda data: data[:-2])),
    "payloads of one size",
)
ANSWERED.put(
    "payload_empty",
    of_models(*CLASSIFIED)(changed(lambda at: at == 11, field_of("data", lambda _: ""))),
    "an answer for each sample",
)
ANSWERED.put(
    "payload_long",
    of_models(*CLASSIFIED)(changed(lambda at: at == 11, field_of("data", lambda data: data * 3))),
    "payloads of one size",
)
ANSWERED.put(
    "detections_cut",
    of_models("ssd-small", "ssd-large")(
        changed(lambda at: at % 9 == 3, field_of("data", lambda data: data[:-8]))
    ),
    "seven numbers a detection",
)


def another_class(data: str) -> str:
    """Answer another class, in the answer's own type."""
    whole = bytes.fromhex(data)
    (value,) = struct.unpack("<f", whole)
    if 1 <= abs(value) < 2000:
        return struct.pack("<f", value % 1000 + 1).hex().upper()
    return struct.pack("<i", struct.unpack("<i", whole)[0] % 1000 + 1).hex().upper()


ANSWERED.put(
    "predictions_changed",
    of_models(*CLASSIFIED)(changed(lambda at: at % 5 == 0, field_of("data", another_class))),
    "the claimed accuracy",
)
ANSWERED.put(
    "few_predictions_changed",
    of_models(*CLASSIFIED)(changed(lambda at: at < 40, field_of("data", another_class))),
    "the claimed accuracy",
)
ANSWERED.put(
    "class_beyond_all",
    of_models(*CLASSIFIED)(changed(lambda at: at == 11, field_of("data", lambda _: "FFFFFF7E"))),
    "a class",
)


@ANSWERED.add("answers to their own samples")
def answers_shuffled(entry: Entry) -> bool:
    def change(answers: list[Answer]) -> list[Answer]:
        moved = [answer["data"] for answer in answers[1:]] + [answers[0]["data"]]
        return [{**answer, "data": data} for answer, data in zip(answers, moved, strict=True)]

    return entry.model in CLASSIFIED and entry.answers(change)


@ANSWERED.add("an accuracy below the threshold is not closed, though it is honest")
def honest_below_threshold(entry: Entry) -> bool:
    wrong = changed(lambda at: at % 10 == 0, field_of("data", another_class))
    return (
        entry.closed
        and entry.model in CLASSIFIED
        and wrong(entry)
        and claim(lambda _: "accuracy=68.500%, good=34250, total=50000")(entry)
    )


def raw(change: Callable[[str], str]) -> Callable[[Entry], bool]:
    """Change the accuracy log as text."""
    return lambda entry: entry.undo.edit(entry.accuracy / ANSWERS, change)


ANSWERED.put("answers_without_their_end", raw(lambda text: text.rstrip()[:-1]), "a whole list")
ANSWERED.put("answers_without_a_comma", raw(lambda text: text.replace("},", "}", 1)), "JSON")
ANSWERED.put("answers_no_list", raw(lambda text: '{ "answers" : ' + text + "}"), "a list")
ANSWERED.put(
    "answers_of_nan",
    raw(lambda text: re.sub(r'"seq_id" : \d+', '"seq_id" : NaN', text, count=1)),
    "JSON has no NaN",
)
ANSWERED.put(
    "answers_with_garbage",
    raw(lambda text: text[: len(text) // 2] + "\x00\xff\x01" + text[len(text) // 2 :]),
    "JSON",
)
ANSWERED.put(
    "answer_without_payload",
    raw(lambda text: re.sub(r', "data" : "\w*"', "", text, count=1)),
    "an answer",
)
ANSWERED.put(
    "answer_without_index",
    raw(lambda text: re.sub(r'"qsl_idx" : \d+, ', "", text, count=1)),
    "the sample that was asked",
)
ANSWERED.put(
    "answer_with_an_index_twice",
    raw(lambda text: re.sub(r'"qsl_idx" : (\d+)', r'"qsl_idx" : 3, "qsl_idx" : \1', text, count=1)),
    "each field once",
)
ANSWERED.put("answers_deeply_nested", raw(lambda text: "[" * 5000 + "]" * 5000), "bounded depth")
ANSWERED.put("answers_half_a_file", raw(half), "a whole list")


def of_another(same_model: bool) -> Callable[[Entry], bool]:
    """Take another entry's accuracy log."""

    def change(entry: Entry) -> bool:
        found = (
            path / "accuracy" / ANSWERS
            for path in entry.origin.parents[5].glob("*/*/results/*/*/*")
            if (path.parent.name == entry.model) == same_model
        )
        mine = (entry.accuracy / ANSWERS).read_bytes()
        path = next(
            (
                path
                for path in sorted(found)
                if path.is_file()
                and path.read_bytes() != mine
                and claim_of(path) != (entry.accuracy / CLAIM).read_bytes()
            ),
            None,
        )
        return path is not None and entry.undo.copy(path, entry.accuracy / ANSWERS)

    return change


def claim_of(path: Any) -> bytes:
    """Read the claim beside an accuracy log."""
    return bytes(path.with_name(CLAIM).read_bytes())


ANSWERED.put(
    "answers_of_another_system", of_models(*CLASSIFIED)(of_another(True)), "its own accuracy log"
)
ANSWERED.put("answers_of_another_benchmark", of_another(False), "its own accuracy log")
ANSWERED.put(
    "accuracy_summary_with_errors",
    lambda entry: entry.undo.edit(
        entry.accuracy / SUMMARY,
        lambda text: text.replace(
            "No errors encountered during test.", "7 ERRORS encountered. See detailed log."
        ),
    ),
    "errors that the detail log has",
)
