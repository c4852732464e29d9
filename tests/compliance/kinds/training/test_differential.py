"""Beside the official checker (PyPI mlperf-logging, ruleset 0.7.0) on logs of our own: as strict
everywhere, and stricter where it is known to be weak.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from examples import EXAMPLES
from making_training import (
    ADAM,
    GNMT,
    LARS,
    MASK,
    SSD,
    Change,
    Record,
    double,
    drop,
    later,
    new,
    put,
    run,
)
from mlperf_logging.compliance_checker import mlp_compliance

from compliance.judge import Judge
from compliance.verdict import Verdict

BENCHMARKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "resnet": {"settings": LARS},
    "ssd": {"settings": SSD, "scores": (0.2, 0.231), "every": 5, "first": 40},
    "maskrcnn": {
        "settings": MASK,
        "scores": ({"BBOX": 0.37, "SEGM": 0.33}, {"BBOX": 0.38, "SEGM": 0.34}),
        "every": 1,
    },
    "gnmt": {"settings": GNMT, "scores": (0.2, 0.241), "every": 1},
    "transformer": {"settings": ADAM, "scores": (0.21, 0.2512), "every": 1},
}
JUDGE: Final = Judge("training-v0.7")


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The official checker tells its findings through logging, and reads its rules anew for each
    log: by the same parser in C here.
    """
    monkeypatch.setattr(yaml, "BaseLoader", yaml.CBaseLoader)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def accepted(path: Path) -> bool:
    """What the official checker says; a traceback is a refusal, and leaves its queue of rule files
    filled.
    """
    mlp_compliance.enqueued_configs.clear()
    checker = mlp_compliance.make_checker("training", "0.7.0", True, False)
    try:
        return bool(checker.check_file(str(path), "training_0.7.0/common.yaml"))
    except Exception:
        return False


def valid(path: Path) -> bool:
    return JUDGE.judge_path(str(path)).verdict is Verdict.VALID


def made(
    folder: Path,
    benchmark: str,
    change: Change = lambda records: records,
    text: Callable[[str], str] = str,
) -> Path:
    path = folder / "result_0.txt"
    path.write_text(text(new(change(run(benchmark, **BENCHMARKS[benchmark])))))
    return path


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_both_accept_a_log_that_keeps_the_rules(tmp_path: Path, benchmark: str) -> None:
    path = made(tmp_path, benchmark)
    assert accepted(path)
    assert valid(path)


@pytest.mark.parametrize("log", ["log/result_0.txt", "full/result_0.txt", "set/result_3.txt"])
def test_both_accept_what_podium_writes(log: str) -> None:
    """podium-v1's logs have more events than a published round knows; the official checker passes
    over them.
    """
    path = EXAMPLES / "base" / log
    assert accepted(path)
    assert Judge().judge_path(str(path)).verdict is Verdict.VALID


VALUES: Final = (None, "x", -1, 1e9, "1", [1], True, float("nan"), {})
ALLOWED: Final = {
    ("block_start", "drop"),
    ("block_stop", "drop"),
    ("cache_clear", "drop"),
    ("init_start", "drop"),
    ("init_stop", "drop"),
}
"""Where ours is not as strict: what a log does not mark is form, and a warning."""


def changes(records: list[Record]) -> Iterator[tuple[str, str, Change]]:
    """Yield what may be done to each event: taken out, repeated, given another value, stripped of
    what its metadata say.
    """
    for key in dict.fromkeys(record.key for record in records):
        yield key, "drop", drop(key)
        yield key, "double", double(key)
        yield key, "double, later", double(key, later=5000)
        yield (
            key,
            "metadata",
            put(key, metadata={"epoch_num": None, "status": None, "first_epoch_num": None}),
        )
        for value in VALUES:
            yield key, f"value {value!r}", put(key, value=value)


def laxer(folder: Path, benchmark: str) -> list[tuple[str, str]]:
    """What ours accepts and the official checker does not; that one, being slow, is asked only
    about what ours accepts.
    """
    records = run(benchmark, **BENCHMARKS[benchmark])
    named = ((key, what, made(folder, benchmark, change)) for key, what, change in changes(records))
    return [(key, what) for key, what, path in named if valid(path) and not accepted(path)]


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_nothing_that_the_official_checker_refuses_is_valid(tmp_path: Path, benchmark: str) -> None:
    """13 changes of each of some 25 events."""
    assert set(laxer(tmp_path, benchmark)) <= ALLOWED


def glued(text: str) -> str:
    """A second run_stop, hidden in front of another record on its line."""
    stop = re.search(r".*run_stop.*", text)
    assert stop
    return text.replace(":::MLLOG", stop[0].replace("success", "aborted") + " :::MLLOG", 1)


def twice_named(text: str) -> str:
    """A record with two values, of which readers take the one or the other."""
    return text.replace('"value": 0.42,', '"value": 0.99, "value": 0.42,')


def swapped(records: list[Record]) -> list[Record]:
    """A run whose first evaluation is its best."""
    return put("eval_accuracy", 1, value=0.5)(put("eval_accuracy", value=0.77)(records))


WEAK: Final[Mapping[str, tuple[str, Change, Callable[[str], str]]]] = {
    "a record hidden in front of another on its line is dropped": (
        "resnet",
        lambda records: records,
        glued,
    ),
    "of a name that stands twice the last counts": ("resnet", lambda records: records, twice_named),
    "a second run_stop at another time is a mere warning": (
        "resnet",
        double("run_stop", later=60_000),
        str,
    ),
    "a second run_start at another time is a mere warning": (
        "resnet",
        double("run_start", later=60_000),
        str,
    ),
    "a quality that is no number is a number": (
        "resnet",
        put("eval_accuracy", value=float("nan")),
        str,
    ),
    "clocks are not compared: a run may end before it starts": (
        "resnet",
        put("run_stop", later=-10_000_000),
        str,
    ),
    "clocks are not compared: the evaluation that counts may be older than the run": (
        "resnet",
        put("eval_accuracy", -1, later=-10_000_000),
        str,
    ),
    "any status will do": ("resnet", put("run_stop", metadata={"status": "done"}), str),
    "success may be claimed where any evaluation but the last reached the target": (
        "resnet",
        swapped,
        str,
    ),
    "initialisation may take an hour where init_stop is moved": (
        "resnet",
        later("run_start", 3_600_000),
        str,
    ),
    "momentum is not looked at": ("resnet", put("lars_opt_momentum", value=5.0), str),
    "the first of SSD's two boundaries is never tested": (
        "ssd",
        put("opt_learning_rate_decay_boundary_epochs", value=[1, 55]),
        str,
    ),
    "GNMT's values are not looked at": (
        "gnmt",
        put("opt_learning_rate_decay_factor", value=0.9),
        str,
    ),
    "a batch may be text": ("gnmt", put("global_batch_size", value="2048"), str),
}
"""What the official checker lets through: what it is, in a log of ours, and how."""


@pytest.mark.parametrize("weakness", WEAK)
def test_ours_holds_where_the_official_checker_is_weak(tmp_path: Path, weakness: str) -> None:
    """Where a newer official checker is stronger this fails, and the line can go."""
    path = made(tmp_path, *WEAK[weakness])
    assert accepted(path), "the official checker has become stronger"
    assert not valid(path)
