"""Names: scenarios in their three spellings, errors with their exit codes, events as MLCommons has
them, records as their schemas.
"""

import hashlib
import json
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
from mlperf_logging.mllog import constants

from suite import events
from suite.errors import (
    JudgedError,
    MissingError,
    PodiumError,
    RequestError,
    build_unknown_name_error,
)
from suite.files.layout import convert_to_slug, fold_name
from suite.loadgen.scenario import Scenario, parse_scenarios
from suite.records import (
    CheckpointRecord,
    RunRecord,
    SystemUnderTest,
    read_system_record,
    write_record,
    write_system_record,
)
from suite.rounds import Profile
from suite.rounds.settings import PERFORMANCE_PREFIXES, SCENARIO_BY_PREFIX, can_affect_run
from suite.terms import Division, Precision
from suite.workload import Mode

SCHEMAS = Path(__file__).parents[2] / "compliance" / "schemas"
OWN = {
    "TOKEN",
    "ROUND",
    "PROFILE",
    "WORKLOAD",
    "VERSION",
    "NONCE",
    "RUN_INDEX",
    "FRAMEWORK",
    "INPUT",
    "DEVICE",
    "PRECISION",
    "THREADS",
    "WORLD_SIZE",
    "SETTINGS",
    "COMMAND_LINE",
    "CORPUS_SAMPLES",
    "QUALITY_TARGET",
    "METRIC_SIGNATURE",
    "THROUGHPUT",
    "RESUMED",
    "REFERENCE_ACCURACY",
    "CHECKPOINT",
    "EXAMPLE",
    "STEP_PREPARATION",
    "TELEMETRY",
    "TELEMETRY_LOST",
}
"""Of podium, not of MLCommons."""

# ---- scenarios ----


@pytest.mark.parametrize("scenario", list(Scenario))
def test_a_scenario_is_known_in_every_spelling(scenario: Scenario) -> None:
    """On the command line, as a folder, as LoadGen prints it; in any case, with underscores too."""
    spellings = (
        scenario.value,
        scenario.folder,
        scenario.label,
        scenario.value.upper(),
        scenario.value.replace("-", "_"),
    )
    assert all(parse_scenarios(text) == (scenario,) for text in spellings)


def test_folders_are_those_of_the_submission_rules() -> None:
    """The official checker looks for these."""
    assert [scenario.folder for scenario in Scenario] == [
        "SingleStream",
        "MultiStream",
        "Server",
        "Offline",
    ]


@pytest.mark.parametrize("text", ["", "All", "single", "server,offline", "single  stream"])
def test_a_scenario_that_is_none_is_refused(text: str) -> None:
    """`all` is the only word for several."""
    with pytest.raises(RequestError, match="unknown scenario"):
        parse_scenarios(text)


# ---- what a setting matters to ----


@pytest.mark.parametrize(
    ("setting", "scenario", "mode", "found"),
    [
        ("server.target_qps", Scenario.SERVER, Mode.PERFORMANCE, True),
        ("server.target_qps", Scenario.OFFLINE, Mode.PERFORMANCE, False),
        ("server.target_qps", Scenario.SERVER, Mode.ACCURACY, False),
        ("loadgen.min_queries", Scenario.OFFLINE, Mode.PERFORMANCE, True),
        ("loadgen.min_queries", Scenario.OFFLINE, Mode.ACCURACY, False),
        ("batching.max_batch", Scenario.OFFLINE, Mode.ACCURACY, True),
        ("global_batch_size", Scenario.SERVER, Mode.ACCURACY, True),
    ],
)
def test_what_a_setting_matters_to(
    setting: str, scenario: Scenario, mode: Mode, found: bool
) -> None:
    """A campaign serves again what a changed setting matters to, and the judge compares no more
    than that.
    """
    assert can_affect_run(setting, scenario.label, mode) is found


def test_every_scenario_has_settings_of_its_own() -> None:
    """A fifth one would be compared with nothing."""
    assert set(SCENARIO_BY_PREFIX.values()) == set(Scenario) and set(SCENARIO_BY_PREFIX) < set(
        PERFORMANCE_PREFIXES
    )


# ---- errors ----


def test_exit_codes_are_those_that_the_manual_has() -> None:
    """Scripts depend on them."""
    assert [kind.exit_code for kind in (PodiumError, JudgedError, RequestError, MissingError)] == [
        1,
        1,
        2,
        3,
    ]
    assert all(issubclass(kind, PodiumError) for kind in (JudgedError, RequestError, MissingError))


@pytest.mark.parametrize(
    ("name", "known", "words"),
    [
        ("ofline", ["offline", "server"], "unknown thing 'ofline'; did you mean 'offline'?"),
        ("zzz", ["b", "a"], "unknown thing 'zzz'; known: a, b"),
        ("zzz", [], "unknown thing 'zzz'; known: none"),
        ("", ["a"], "unknown thing ''; known: a"),
    ],
)
def test_what_is_unknown_is_answered_with_what_is(name: str, known: list[str], words: str) -> None:
    """The nearest, or all of them."""
    assert str(build_unknown_name_error("thing", name, known)) == words


# ---- events ----


def test_standard_events_have_mlcommons_names() -> None:
    """The official checker reads our logs: a name that drifts would be one that is missing."""
    standard = {
        name: value
        for name, value in vars(events).items()
        if name.isupper() and isinstance(value, str) and name not in OWN
    }
    assert len(standard) > 20
    assert {
        name: value for name, value in standard.items() if getattr(constants, name) != value
    } == {}


def test_no_own_event_is_called_like_another() -> None:
    """MLCommons' checker passes over ours by their names, but for those that mean the same
    there.
    """
    own = {getattr(events, name) for name in OWN}
    theirs = {
        value
        for name, value in vars(constants).items()
        if name.isupper() and isinstance(value, str)
    }
    assert len(own) == len(OWN) and own & theirs <= {
        "throughput",
        "tracked_stats",
        events.FRAMEWORK,
    }


# ---- names ----


@pytest.mark.parametrize(
    "text",
    ["Intel(R) Xeon(R)", "ÄÖ", "..", "a/b", "a\\b", "CON", "x" * 300, "\n", "-a-", ".hidden"],
)
def test_a_slug_is_a_plain_folder_name(text: str) -> None:
    """It never climbs, never hides, never looks like an option."""
    found = convert_to_slug(text)
    assert (
        found
        and "/" not in found
        and "\\" not in found
        and not found.startswith((".", "-"))
        and found == convert_to_slug(found)
    )


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [("Dell EMC", "dellemc", True), ("a-b_c", "ABC", True), ("a1", "a2", False), ("", "-", True)],
)
def test_names_are_compared_without_case_spaces_and_punctuation(
    left: str, right: str, same: bool
) -> None:
    """Organisations spell themselves in several ways."""
    assert (fold_name(left) == fold_name(right)) is same


def test_vocabularies_are_closed() -> None:
    """A profile more or less changes what every log may say."""
    assert (
        [*Profile] == ["smoke", "quick", "full"]
        and [*Division] == ["closed", "open", "network"]
        and [*Mode] == ["accuracy", "performance"]
    )
    assert {"fp32", "bf16", "fp16", "int8"} <= {*Precision}


# ---- records ----


@pytest.mark.parametrize(
    ("record", "schema"),
    [
        (SystemUnderTest, "system.json"),
        (RunRecord, "run.json"),
        (CheckpointRecord, "checkpoint.json"),
    ],
)
def test_records_and_schemas_have_the_same_fields(record: Any, schema: str) -> None:
    """One that is written and not described, or described and not written, would be read by
    nobody.
    """
    document = json.loads((SCHEMAS / schema).read_text())
    assert {field.name for field in fields(record)} == set(document["properties"])
    needed = {
        field.name
        for field in fields(record)
        if field.default is MISSING and field.default_factory is MISSING
    }
    assert needed <= set(document["required"])


def test_the_digest_of_a_system_is_that_of_its_file(tmp_path: Path) -> None:
    """Anybody can find a run's system with sha256sum, and a changed value gives another digest."""
    system = SystemUnderTest(
        workload="w",
        round="r",
        profile="smoke",
        division="open",
        org="o",
        name="box-torch-fp32",
        framework="f",
        engine="e",
        engine_package="e 1",
        input="i",
        precision="fp32",
        device="cpu",
        threads=1,
        checkpoint_sha256="c",
        nonce="n",
        settings={"b": (1, 2), "a": True, "c": 1.0, "d": "caf\u00e9"},
        sample_count=1,
        version="0",
    )
    write_system_record(tmp_path, system)
    digest = hashlib.sha256((tmp_path / "system.json").read_bytes()).hexdigest()
    assert system.compute_digest() == digest
    assert read_system_record(tmp_path).compute_digest() == digest
    assert replace(system, threads=2).compute_digest() != digest


def test_a_record_is_written_sorted_and_ends_with_a_newline(tmp_path: Path) -> None:
    """Two equal records are equal byte for byte: bundles are reproducible."""
    record = RunRecord(
        system_sha256="ab",
        changed={"b": (1, 2), "a": True},
        command=("podium",),
        ceiling=None,
        batches={"count": 1.0},
    )
    write_record(tmp_path / "a.json", record)
    text = (tmp_path / "a.json").read_text()
    document = json.loads(text)
    assert (
        text.endswith("}\n")
        and list(document) == sorted(document)
        and document["changed"] == {"a": True, "b": [1, 2]}
    )
    write_record(tmp_path / "b.json", record)
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()
