"""Mutants of what is filed with an inference entry since v1.0: claims, measurements, system,
compliance tests, folders.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ..kinds import Kinds
from .later import ANSWERS, CLAIM, DETAIL, Later

LATER_FILED: Kinds[Later] = Kinds()
FIELDS: Final = (
    "input_data_types",
    "retraining",
    "starting_weights_filename",
    "weight_data_types",
    "weight_transformations",
)
SYSTEM: Final = (
    "division",
    "submitter",
    "status",
    "system_name",
    "system_type",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_processor_core_count",
    "host_memory_capacity",
    "host_storage_type",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_memory_capacity",
    "framework",
    "operating_system",
    "other_software_stack",
    "cooling",
    "hw_notes",
)
EMPTIED: Final = ("division", "submitter", "status", "system_name", "framework", "operating_system")
WRONG: Final[dict[str, Any]] = {
    "division": "half-open",
    "submitter": "Somebody Else Entirely",
    "status": "wished for",
    "system_type": "toaster",
    "number_of_nodes": 0,
    "host_processors_per_node": 1.5,
    "accelerators_per_node": -1,
}
NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?"
LINES: Final = ("First token check pass", "EOS check pass", "Sample length check pass")
SPEED: Final = "verify_performance.txt"
SAID: Final = "verify_accuracy.txt"


def claimed(change: Callable[[str], str]) -> Callable[[Later], bool]:
    """Change accuracy.txt."""
    return lambda entry: entry.undo.edit(entry.accuracy / CLAIM, change)


def numbers(factor: float) -> Callable[[str], str]:
    """Multiply every number that is no part of the hash."""
    return lambda text: "".join(
        (
            line
            if line.startswith("hash")
            else re.sub(
                rf"(?<=[=:\s'])({NUMBER})(?=[,%}}'\s])",
                lambda found: f"{float(found[1]) * factor:.6g}",
                line,
            )
        )
        for line in text.splitlines(keepends=True)
    )


def test(name: str, change: Callable[[Later], bool]) -> Callable[[Later], bool]:
    """Do it in entries whose benchmark has a test."""
    return lambda entry: (
        name in entry.model.tests and (entry.tests / name).is_dir() and change(entry)
    )


def said(name: str, file: str, change: Callable[[str], str]) -> Callable[[Later], bool]:
    """Change what a verification script printed."""
    return test(name, lambda entry: entry.undo.edit(entry.tests / name / file, change))


def differing(text: str) -> str:
    """Let answers differ in a test that passed."""
    return text.replace("data_mismatch = 0", "data_mismatch = 9") if "TEST PASS" in text else text


def of_streams(entry: Later) -> bool:
    """Tell whether its results are latencies."""
    return "Stream" in entry.value("effective_scenario")


def slower(score: str) -> Callable[[str], str]:
    """Make one of the two compared scores a billion times as high."""
    return lambda text: re.sub(rf"({score} score\s*=\s*)({NUMBER})", r"\g<1>\g<2>e9", text)


def logged(name: str, keys: tuple[str, ...], value: Any) -> Callable[[Later], bool]:
    """Change what a test's run tells, in rounds whose rules look at it."""
    run = Path(name, "performance", "run_1")
    return test(
        name,
        lambda entry: (
            not entry.round.rules.test_runs_logged
            and entry.change(keys, lambda _: value, entry.tests / run)
        ),
    )


LATER_FILED.made(
    ("user.conf", "README.md"),
    lambda name: lambda entry: entry.undo.delete(entry.measurements / name),
    "no",
    "filed with the results",
)
LATER_FILED.made(
    FIELDS,
    lambda name: lambda entry: entry.table(entry.described, **{name: ...}),
    "without",
    "in measurements",
)
LATER_FILED.made(
    FIELDS,
    lambda name: lambda entry: entry.table(entry.described, **{name: ""}),
    "empty",
    "in measurements",
)
LATER_FILED.made(
    SYSTEM,
    lambda name: lambda entry: entry.table(entry.system, **{name: ...}),
    "system_without",
    "in the description",
)
LATER_FILED.made(
    EMPTIED,
    lambda name: lambda entry: entry.table(entry.system, **{name: ""}),
    "system_empty",
    "in the description",
)
LATER_FILED.made(
    WRONG,
    lambda name: lambda entry: entry.table(entry.system, **{name: WRONG[name]}),
    "system_wrong",
    "a value that is known",
)
LATER_FILED.made(
    ("TEST01", "TEST04", "TEST05", "TEST06", "TEST07", "TEST09"),
    lambda name: test(name, lambda entry: entry.undo.delete(entry.tests / name)),
    "no",
    "the benchmark's compliance tests",
)
LATER_FILED.made(
    ("TEST01", "TEST04", "TEST05"),
    lambda name: said(name, SPEED, lambda text: text.replace("TEST PASS", "TEST FAIL")),
    "slow",
    "TEST PASS",
)
LATER_FILED.made(
    ("TEST01", "TEST04", "TEST05"),
    lambda name: test(name, lambda entry: entry.undo.delete(entry.tests / name / SPEED)),
    "unsaid",
    "an outcome",
)
LATER_FILED.made(
    ("TEST01", "TEST04", "TEST05"),
    lambda name: test(name, lambda entry: entry.undo.delete(entry.tests / name / "performance")),
    "unrun",
    "a run",
)
LATER_FILED.made(
    ("TEST01", "TEST04", "TEST05"),
    lambda name: logged(name, ("effective_qsl_rng_seed",), 7),
    "seed",
    "the test's seeds",
)
LATER_FILED.made(
    ("TEST01", "TEST04", "TEST05"),
    lambda name: logged(name, ("result_validity",), "INVALID"),
    "invalid",
    "VALID",
)
LATER_FILED.made(
    ("TEST06", "TEST07"),
    lambda name: test(name, lambda entry: entry.undo.write(entry.tests / name / SAID, b"")),
    "silent",
    "an outcome",
)
LATER_FILED.made(
    LINES,
    lambda line: said("TEST06", SAID, lambda text: re.sub(f"{line}: .*", f"{line}: False", text)),
    "false",
    "TEST06 passed",
)
LATER_FILED.made(
    LINES,
    lambda line: said("TEST06", SAID, lambda text: re.sub(f"{line}: .*\n", "", text)),
    "unsaid",
    "TEST06 passed",
)
LATER_FILED.put(
    "not_passed_07",
    said("TEST07", SAID, lambda text: text.replace("TEST PASS", "TEST FAIL")),
    "TEST07 passed",
)
LATER_FILED.put(
    "not_passed_09",
    said("TEST09", "verify_output_len.txt", lambda text: text.replace("TEST PASS", "")),
    "TEST09 passed",
)
LATER_FILED.put("answers_differ", said("TEST01", SAID, differing), "no differing answers")
LATER_FILED.put(
    "much_slower",
    lambda entry: said("TEST01", SPEED, slower("test" if of_streams(entry) else "reference"))(
        entry
    ),
    "near the result",
)
LATER_FILED.put(
    "nothing_sampled",
    logged(
        "TEST01",
        ("effective_accuracy_log_sampling_target", "effective_accuracy_log_probability"),
        0,
    ),
    "answers sampled",
)
LATER_FILED.put(
    "issued_as_usual",
    logged("TEST04", ("effective_performance_issue_same",), False),
    "one sample again and again",
)
LATER_FILED.put(
    "seeds_of_the_result",
    lambda entry: logged("TEST05", ("effective_qsl_rng_seed",), entry.round.rules.qsl_rng_seed)(
        entry
    ),
    "TEST05's seeds",
)
LATER_FILED.put(
    "no_tests",
    lambda entry: (
        bool(entry.model.tests)
        and not entry.round.rules.together
        and entry.undo.delete(entry.tests)
    ),
    "tests",
)
LATER_FILED.put("claims_a_hundredth", claimed(numbers(0.01)), "the benchmark's quality")
LATER_FILED.put("claims_a_little_less", claimed(numbers(0.9)), "the benchmark's quality")
LATER_FILED.put(
    "claims_too_much",
    lambda entry: (
        bool(entry.model.accuracy_most)
        and set(entry.model.accuracy_most) <= set(entry.model.accuracy)
        and claimed(numbers(100))(entry)
    ),
    "no more than the limit",
)
LATER_FILED.put(
    "claims_nan",
    claimed(lambda text: re.sub(rf"(?<=[=:\s'])({NUMBER})(?=[,%}}'\s])", "nan", text)),
    "a number",
)
LATER_FILED.put(
    "claims_nothing",
    claimed(
        lambda text: next(line for line in text.splitlines() if line.startswith("hash")) + "\n"
    ),
    "a score",
)
LATER_FILED.put(
    "no_hash", claimed(lambda text: re.sub("(?m)^hash=.*\n?", "", text)), "the accuracy log's hash"
)
LATER_FILED.put("no_claim", lambda entry: entry.undo.delete(entry.accuracy / CLAIM), "accuracy.txt")
LATER_FILED.put(
    "no_answers", lambda entry: entry.undo.delete(entry.accuracy / ANSWERS), "an accuracy log"
)
LATER_FILED.put(
    "answers_not_cut",
    lambda entry: entry.undo.write(entry.accuracy / ANSWERS, b"[\n" + b" " * 20_000 + b"]\n"),
    "cut to 10 KiB",
)
LATER_FILED.put("no_accuracy", lambda entry: entry.undo.delete(entry.accuracy), "an accuracy run")
LATER_FILED.put("no_system", lambda entry: entry.undo.delete(entry.system), "a description")
LATER_FILED.put(
    "accelerators_that_are_not_counted",
    lambda entry: entry.table(entry.system, accelerators_per_node=0, accelerator_model_name="X1"),
    "as many accelerators as are named",
)
LATER_FILED.put(
    "system_a_list", lambda entry: entry.undo.write(entry.system, b"[1, 2]"), "a JSON object"
)
LATER_FILED.put(
    "system_garbage", lambda entry: entry.undo.write(entry.system, b"{nothing"), "a JSON object"
)
LATER_FILED.put(
    "undescribed", lambda entry: entry.undo.delete(entry.described), "how the model was made"
)
LATER_FILED.put(
    "described_by_a_list", lambda entry: entry.undo.write(entry.described, b"[]"), "a JSON object"
)
LATER_FILED.put(
    "described_by_garbage",
    lambda entry: entry.undo.write(entry.described, b"{nothing"),
    "a JSON object",
)
LATER_FILED.put(
    "scenario_missing",
    lambda entry: entry.scenario == "Offline" and entry.undo.delete(entry.folder),
    "all scenarios",
    in_tree=True,
)


@LATER_FILED.add("the whole accuracy set")
def part_of_the_accuracy_set(entry: Later) -> bool:
    keys = ("qsl_reported_total_count", "effective_accuracy_sample_count")
    return entry.model.accuracy_samples is not None and entry.change(
        keys, lambda count: count // 2, entry.accuracy
    )


@LATER_FILED.add("a system of the edge")
def inferred_in_the_datacenter(entry: Later) -> bool:
    stream = entry.folder.parent / "SingleStream" / "performance" / "run_1" / DETAIL
    if entry.scenario != "Offline" or not stream.is_file():
        return False
    entry.undo.copy(stream, entry.run / DETAIL)
    entry.undo.copy(
        stream.with_name("mlperf_log_summary.txt"), entry.run / "mlperf_log_summary.txt"
    )
    return entry.table(entry.system, system_type="datacenter")


@LATER_FILED.add("the division of its folder")
def of_another_division(entry: Later) -> bool:
    return entry.table(entry.system, division="open")


@LATER_FILED.add("separate runs")
def run_filed_twice(entry: Later) -> bool:
    files = [path for path in entry.run.iterdir() if path.is_file()]
    return all(entry.undo.copy(path, entry.run.with_name("run_2") / path.name) for path in files)
