"""The published schemas: valid themselves, true of what podium writes, and at one with the typed
decoders that judge in their place.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from compliance.bundle import manifest
from compliance.judge import Judge
from compliance.kinds.podium.documents import (
    audit,
    checkpoint,
    inference,
    json_document,
    system_description,
)
from compliance.kinds.podium.documents.training import read_training_log
from compliance.logs.loadgen import accuracy_log, summary
from compliance.logs.mllog import mllog_lines
from compliance.logs.source_file import SourceFile
from compliance.reports import render
from suite import registry
from suite.history.records import LINE_DECODER
from suite.records import RUN_RECORD_DECODER, SYSTEM_RECORD_DECODER

TREE = EXAMPLES / "base" / "tree"
RUN = next(TREE.glob("**/performance/run_1"))
LOG = EXAMPLES / "base" / "log" / "result_0.txt"
DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "mllog-event.json": mllog_lines.EVENT_DECODER,
    "run.json": RUN_RECORD_DECODER,
    "system.json": SYSTEM_RECORD_DECODER,
    "measurements.json": inference.MEASUREMENTS_DECODER,
    "system-description.json": system_description.SYSTEM_DECODER,
    "checkpoint.json": checkpoint.CHECKPOINT_FILE_DECODER,
    "audit.json": audit.AUDIT_DECODER,
    "manifest.json": msgspec.json.Decoder(manifest.Manifest),
    "history.json": LINE_DECODER,
}
SAMPLES = {
    "mllog-event.json": json.loads(LOG.read_text().splitlines()[0].removeprefix(":::MLLOG ")),
    "run.json": json.loads((RUN / "run.json").read_text()),
    "system.json": json.loads((RUN.parents[1] / "system.json").read_text()),
    "measurements.json": json.loads(next(TREE.glob("**/*_podium_*.json")).read_text()),
    "system-description.json": json.loads(next(TREE.glob("**/systems/*.json")).read_text()),
    "checkpoint.json": json.loads(next(TREE.glob("**/record.json")).read_text()),
    "audit.json": json.loads(
        next((EXAMPLES / "base" / "audited").glob("**/audit.json")).read_text()
    ),
    "history.json": json.loads(
        (EXAMPLES / "base" / "history" / "history.jsonl").read_text().splitlines()[0]
    ),
    "manifest.json": {
        "format": 3,
        "round": "podium-v1",
        "profile": "smoke",
        "workloads": ["resnet50"],
        "nonce": {"resnet50": "ab"},
        "checkpoints": {"resnet50": "cd"},
        "files": {"a": {"sha256": "ef", "size": 1}},
        "environment": {"box": {}},
        "commands": [["podium"]],
        "seeds": [1],
        "version": "0.1.0",
    },
}
OTHERS: list[Any] = [None, True, 3, 3.5, "text", [], {}, [1], {"a": 1}]


def summary_document(told: summary.LoadGenSummary) -> dict[str, Any]:
    """Give LoadGen's summary as the schema loadgen-summary.json has it."""
    return {
        "values": {name: value.text for name, value in told.values.items()},
        "parameters": {name: value.text for name, value in told.parameters.items()},
        "remarks": list(told.remarks),
    }


def accepted(name: str, document: Any) -> bool:
    """What the typed decoder says."""
    try:
        DECODERS[name].decode(json.dumps(document).encode())
    except msgspec.ValidationError:
        return False
    return True


def good(name: str, document: Any) -> bool:
    """What the published schema says."""
    return not list(json_document.check_document_schema(name, document))


@pytest.mark.parametrize("name", sorted(json_document.read_published_schemas()))
def test_a_schema_is_one_and_says_what_it_is_about(name: str) -> None:
    schema = json_document.read_published_schemas()[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$id"].endswith(name)
    assert schema["title"]
    assert schema["description"]


@pytest.mark.parametrize("name", sorted(DECODERS))
def test_schema_and_decoder_agree_wherever_a_field_is_missing_or_of_another_type(name: str) -> None:
    """A document that one of them takes and the other does not would be judged by chance."""
    sample = SAMPLES[name]
    assert accepted(name, sample)
    assert good(name, sample)
    for field in sample:
        less = {key: value for key, value in sample.items() if key != field}
        assert accepted(name, less) == good(name, less), f"without {field}"
        for other in OTHERS:
            document = sample | {field: other}
            assert accepted(name, document) == good(name, document), f"{field} = {other!r}"


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
)
FIELDS = st.sampled_from(["key", "value", "metadata", "time_ms", "event_type"])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
        max_leaves=8,
    )
)
def test_schema_and_decoder_agree_about_any_event(document: Any) -> None:
    assert accepted("mllog-event.json", document) == good("mllog-event.json", document)


def test_answers_agree_with_their_schema() -> None:
    """One line of the accuracy log is one element of the array."""
    for answer, held in (
        ({"seq_id": 0, "qsl_idx": 1, "data": "08000000"}, True),
        ({"seq_id": 0, "qsl_idx": 1}, False),
        ({"seq_id": "0", "qsl_idx": 1, "data": ""}, False),
        ({"seq_id": 0, "qsl_idx": 1, "data": "0"}, False),
        ({"seq_id": 0, "qsl_idx": 1, "data": "0g"}, False),
        ({"seq_id": 0, "qsl_idx": 1, "data": "", "more": 1}, False),
    ):
        source = SourceFile(Path("x"), lines=1)
        found = accuracy_log.AnswerIndex(Path("x"))
        accuracy_log.index_answer_line(found, source, json.dumps(answer).encode(), 0)
        assert good("loadgen-accuracy.json", [answer]) is held
        assert bool(source.parse_errors) is not held


def test_what_loadgen_and_podium_write_has_the_published_shape() -> None:
    for path in (
        run.with_name("mlperf_log_detail.txt") for run in EXAMPLES.glob("base/**/run.json")
    ):
        for line in path.read_text().splitlines():
            assert good("loadgen-detail.json", json.loads(line.removeprefix(":::MLLOG ")))
    for path in (
        run.with_name("mlperf_log_summary.txt")
        for run in EXAMPLES.glob("base/**/performance/run_1/run.json")
    ):
        assert good(
            "loadgen-summary.json", summary_document(summary.read_loadgen_summary(SourceFile(path)))
        )
    for path in (
        path
        for base in ("log", "full", "set")
        for path in (EXAMPLES / "base" / base).glob("result_*.txt")
    ):
        log = read_training_log(path, registry.load_round(), None)
        assert good("training.podium-v1.resnet50.json", json_document.build_training_document(log))


def test_the_report_has_the_published_shape() -> None:
    results = [
        Judge().judge_path(str(EXAMPLES / "invalid" / rule))
        for rule in ("entry.ceiling", "tree.contents", "training.target")
    ]
    assert good("report.json", json.loads(render.render_judge_report(results, "json")))


@pytest.mark.parametrize(
    "path",
    sorted((EXAMPLES / "invalid").glob("training.*/result_0.txt")),
    ids=lambda path: path.parent.name,
)
def test_what_the_training_schema_refuses_the_rules_refuse_too(path: Path) -> None:
    """A single log is judged without jsonschema: no fact may pass there that a set would not."""
    log = read_training_log(path, registry.load_round(), None)
    if not good("training.podium-v1.resnet50.json", json_document.build_training_document(log)):
        assert any(
            finding.severity == "error" for finding in Judge().judge_path(str(path)).findings
        )


@pytest.mark.parametrize(
    "field",
    [
        "train_samples",
        "eval_samples",
        "seed",
        "threads",
        "device",
        "precision",
        "metric_signature",
        "campaign_nonce",
    ],
)
@pytest.mark.parametrize("other", [None, True, -1, "", 0.5, [], {}])
def test_rules_refuse_each_fact_that_the_schema_refuses(
    tmp_path: Path, field: str, other: Any
) -> None:
    lines = LOG.read_text().splitlines(keepends=True)
    place = next(place for place, line in enumerate(lines) if f'"key": "{field}"' in line)
    document = json.loads(lines[place].removeprefix(":::MLLOG ")) | {"value": other}
    lines[place] = ":::MLLOG " + json.dumps(document) + "\n"
    path = tmp_path / "result_0.txt"
    path.write_text("".join(lines))
    log = read_training_log(path, registry.load_round(), None)
    broken = any(finding.severity == "error" for finding in Judge().judge_path(str(path)).findings)
    assert broken or good(
        "training.podium-v1.resnet50.json", json_document.build_training_document(log)
    )
