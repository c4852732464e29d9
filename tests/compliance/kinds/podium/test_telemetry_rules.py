"""Telemetry of a run as the judge reads it: what is no telemetry, what does not fit the run, and
what disturbed it.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from examples import result_of
from hypothesis import given, settings
from hypothesis import strategies as st
from kinds.network import networked
from kinds.records import BEGIN_NS, UTC_NS, hosted, observed, recorded
from kinds.records import telemetry as text_of
from ledgers import recorded_tree
from spoiling import put

from compliance.judge import Judge
from compliance.kinds.podium.documents import json_document
from compliance.kinds.podium.rules import noise
from compliance.logs import telemetry
from compliance.logs.source_file import SourceFile
from compliance.verdict import About, Severity, Verdict
from suite.files.layout import QUERY_RECORD_FILE, TELEMETRY_FILE

Edit = Callable[[str], str]


def findings(folder: Path, edit: Edit = lambda text: text, **sampled: Any) -> list[tuple[str, str]]:
    """Judge a Server run whose telemetry is changed; all that is said of it is a warning, and the
    verdict stays.
    """
    recorded(**sampled)(folder)
    (path,) = folder.glob(f"**/{TELEMETRY_FILE}")
    path.write_text(edit(path.read_text()))
    result = result_of(folder)
    assert result.verdict is Verdict.VALID and all(
        finding.severity is Severity.WARNING for finding in result.findings
    )
    return [(finding.rule, finding.found) for finding in result.findings]


def test_a_run_without_records_is_judged_as_before(tmp_path: Path):
    """Bundles from before they were kept have neither file."""
    recorded()(tmp_path)
    for name in (QUERY_RECORD_FILE, TELEMETRY_FILE):
        next(tmp_path.glob(f"**/{name}")).unlink()
    assert result_of(tmp_path).findings == ()


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (lambda text: text.replace('"steal":0.0', '"steal":NaN', 1), "file.number"),
        (lambda text: text.replace('"steal":0.0', '"steal":1.5', 1), "file.shape"),
        (lambda text: text.replace('"steal":0.0', '"stolen":0.0', 1), "file.shape"),
        (lambda text: text.replace('"host":{', '"hosts":{', 1), "file.shape"),
        (lambda text: text.replace('"telemetry":1', '"telemetry":2'), "file.shape"),
        (lambda text: text.replace('{"t":', '{"t":1,"t":', 1), "file.duplicate"),
        (lambda text: text[: len(text) // 2], "file.cut"),
        (lambda text: text.partition("\n")[2], "file.record"),
        (lambda text: text + text.splitlines()[1] + "\n", "file.record"),
        (lambda text: "", "file.record"),
        (lambda text: "garbage\n", "file.record"),
    ],
)
def test_what_is_no_telemetry_is_named_and_voids_nothing(tmp_path: Path, edit: Edit, rule: str):
    """A run counts without the record: a damaged one is a warning, and no noise is read out of
    it.
    """
    found = {
        name
        for name, _ in findings(
            tmp_path, edit, host=lambda second: {"cpu_others": 0.9, "cpu_own": 0.1}
        )
    }
    assert rule in found and not any(name.startswith(("noise.", "telemetry.")) for name in found)


def lines_without(text: str, dropped: range) -> str:
    return "".join(
        line for number, line in enumerate(text.splitlines(keepends=True)) if number not in dropped
    )


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (lambda text: text.replace('"t":5000000000000', '"t":4998000000001'), "telemetry.time"),
        (lambda text: text.replace('"t":5000000000000', '"t":6000000000000'), "telemetry.time"),
        (lambda text: text.replace('"clocks_ns":[5008', '"clocks_ns":[5003'), "telemetry.time"),
        (lambda text: lines_without(text, range(4, 5)), "telemetry.whole"),
        (lambda text: lines_without(text, range(10, 11)), "telemetry.whole"),
        (lambda text: text + text, "telemetry.whole"),
        (
            lambda text: text.replace('"clocks_ns":[4998000000000', '"clocks_ns":[5001000000000'),
            "telemetry.window",
        ),
    ],
)
def test_telemetry_that_does_not_fit_its_run(tmp_path: Path, edit: Edit, rule: str):
    """Time that runs backwards, lines that are missing, a file of another run."""
    assert rule in {name for name, _ in findings(tmp_path, edit)}


def test_a_run_that_goes_on_behind_its_telemetry_contradicts_it(tmp_path: Path):
    """By more than 2 s and 1 % of it: somebody cut the file, or the run is another one."""
    recorded()(tmp_path)
    (path,) = tmp_path.glob(f"**/{TELEMETRY_FILE}")
    before, after = '"clocks_ns":[5008000000000,1700002810', '"clocks_ns":[5001000000000,1700002803'
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    found = [each for each in result_of(tmp_path).findings if each.rule == "telemetry.window"]
    assert [(each.severity, each.about) for each in found] == [(Severity.ERROR, About.SCORE)]


def test_a_resumed_run_may_have_a_segment_that_was_killed():
    """kill -9 leaves no last line; the log says that the run was resumed."""
    first, second = (text_of(BEGIN_NS + n * 10**11, UTC_NS + n * 10**11, 3) for n in range(2))
    source = SourceFile(Path("x"))
    found = telemetry.TelemetryFile(source=source)
    for number, line in enumerate((lines_without(first, range(4, 5)) + second).splitlines(), 1):
        telemetry.parse_telemetry_line(found, number, line.encode())
    assert not source.parse_errors and [segment.end is None for segment in found.segments] == [
        True,
        False,
    ]


def test_a_short_disturbance_is_seen_in_a_long_run():
    """Ten seconds at 40 % hide in the average of an hour."""
    told = [(10**9, 0.01)] * 60 + [(10**9, 0.4)] * 10 + [(10**9, 0.01)] * 60
    assert noise.compute_mean_share(told) < 0.1 and noise.compute_peak_share(
        told, 10
    ) == pytest.approx(0.4)
    assert noise.compute_peak_share(told[:5], 10) == 0 and noise.compute_peak_share(
        [(30 * 10**9, 0.3)], 10
    ) == pytest.approx(0.3)


def test_readings_count_by_the_time_that_they_tell_of(tmp_path: Path):
    """The last reading, of some milliseconds, weighs no more than these; what was before the run
    does not count at all.
    """
    found = findings(tmp_path, host=lambda second: {"cpu_others": 0.9 if second <= 2 else 0.0})
    assert not [name for name, _ in found if name == "noise.others"]


@pytest.mark.parametrize(
    ("reasons", "held"), [(0x4, False), (0x1, False), (0x20, True), (0x40, True), (0x80, True)]
)
def test_which_reasons_are_throttling(tmp_path: Path, reasons: int, held: bool):
    """An idle GPU and a power cap that the user set are no heat."""
    found = findings(tmp_path, gpu=lambda second: {"event_reasons": reasons})
    assert ("noise.throttle" in {name for name, _ in found}) is held


def test_a_machine_that_tells_nothing_is_told_nothing(tmp_path: Path):
    """A virtual machine has neither clocks nor temperatures; null is no zero."""
    nothing = dict.fromkeys(
        ("cpu_own", "cpu_others", "steal", "psi_some", "swap_in_bytes", "mhz", "temp_c")
    )
    gone = {
        **dict.fromkeys(("util", "sm_mhz", "mem_mhz", "temp_c", "power_w", "event_reasons")),
        "ecc": [None, None],
    }
    assert findings(tmp_path, host=lambda second: nothing, gpu=lambda second: gone) == []


def test_telemetry_of_a_training_set_is_judged_with_it(tmp_path: Path):
    """Also as a single file, and where its log is missing."""
    observed(host=lambda second: {"steal": 0.5})(tmp_path)
    for path in (tmp_path, tmp_path / "telemetry_0.jsonl"):
        assert [finding.rule for finding in Judge().judge_path(str(path)).findings] == [
            "noise.steal"
        ]
    (tmp_path / "telemetry_0.jsonl").rename(tmp_path / "telemetry_3.jsonl")
    assert [finding.rule for finding in Judge().judge_path(str(tmp_path)).findings] == [
        "file.foreign"
    ]


LINES = [
    json.loads(line) for line in text_of(BEGIN_NS, UTC_NS, 1, gpu=lambda second: {}).splitlines()
]
FRACTIONS = st.floats(-1, 2, allow_nan=False).filter(
    lambda value: not value.is_integer()
)  # JSON Schema takes 1.0 for a whole number
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | FRACTIONS
    | st.text(max_size=2)
    | st.lists(st.integers(0, 3), max_size=2)
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(LINES), st.data())
def test_the_published_schema_and_the_reader_agree(line: dict[str, Any], data: st.DataObject):
    """A line that one of them takes and the other does not would be judged by chance."""
    line = json.loads(json.dumps(line))
    table = (
        line
        if "telemetry" in line
        else next(value for value in line.values() if isinstance(value, dict))
    )
    field = data.draw(st.sampled_from(sorted(table)))
    table[field] = data.draw(LEAVES)
    source = SourceFile(Path("x"))
    found = telemetry.TelemetryFile(source=source)
    for number, each in enumerate(([] if "telemetry" in line else LINES[:1]) + [line], 1):
        telemetry.parse_telemetry_line(found, number, json.dumps(each).encode())
    if (
        "telemetry" not in line or table["channels"] != []
    ):  # without channels nothing can follow: the schema takes a line alone
        assert bool(source.parse_errors) == bool(
            list(json_document.check_document_schema("telemetry.json", line))
        )


OUTSIDE: list[tuple[float, float, list[str]]] = [
    (0.1, 0.3, []),
    (2.2, 2.2, []),
    (10, 0.3, ["a beginning 10.0 s before the log's"]),
    (0.1, 10, ["an end 10.0 s after run_stop"]),
]


def sample_training(folder: Path, before_s: float, after_s: float) -> tuple[list[str], Path]:
    """A training log with telemetry that begins so long before its first line and ends so long
    after run_stop; return its lines, and its path.
    """
    observed()(folder)
    log = [json.loads(line[9:]) for line in (folder / "result_0.txt").read_text().splitlines()]
    (end_ms,) = (line["time_ms"] for line in log if line["key"] == "run_stop")
    utc_ns = int((log[0]["time_ms"] - before_s * 1000) * 10**6)
    lines = text_of(BEGIN_NS, utc_ns, 5).splitlines(keepends=True)
    end = json.loads(lines[-1])
    ended_ns = int((end_ms + after_s * 1000) * 10**6)
    end["end"]["clocks_ns"] = [BEGIN_NS + ended_ns - utc_ns, ended_ns]
    lines[-1] = json.dumps(end, separators=(",", ":")) + "\n"
    (folder / "telemetry_0.jsonl").write_text("".join(lines))
    return lines, folder / "telemetry_0.jsonl"


def outside(folder: Path) -> list[tuple[str, Severity]]:
    return [
        (finding.found, finding.severity)
        for finding in Judge().judge_path(str(folder)).findings
        if finding.rule == "telemetry.outside"
    ]


@pytest.mark.parametrize(("before_s", "after_s", "found"), OUTSIDE)
@pytest.mark.parametrize("segments", [1, 2])
def test_telemetry_of_a_training_run_is_as_long_as_the_run(
    tmp_path: Path, before_s: float, after_s: float, segments: int, found: list[str]
) -> None:
    """Times squeezed in the log leave the sampler running longer than the run, which takes half a
    minute here: 2 s and 1 % are 2.3 s. A second segment hides nothing.
    """
    lines, path = sample_training(tmp_path, before_s, after_s)
    path.write_text("".join(lines) * segments)
    assert outside(tmp_path) == [(each, Severity.ERROR) for each in found]


def test_a_run_that_was_killed_behind_its_clock_is_completed_later(tmp_path: Path) -> None:
    """Its file ends when somebody takes it up again; what ended before run_stop may not."""
    lines, path = sample_training(tmp_path, 0.1, 0.3)
    later = text_of(BEGIN_NS, json.loads(lines[0])["clocks_ns"][1] + 3600 * 10**9, 1)
    path.write_text("".join(lines[:-1]) + later)
    assert outside(tmp_path) == []
    lines, path = sample_training(tmp_path, 0.1, 10)
    path.write_text("".join(lines) + later)
    assert outside(tmp_path) == [("an end 10.0 s after run_stop", Severity.ERROR)]


def test_telemetry_without_its_last_line_ends_with_its_last_reading(tmp_path: Path) -> None:
    """Leaving the line out takes nothing away; a clock that was set does not shorten a run."""
    lines, path = sample_training(tmp_path, 0.1, 10)
    reading = json.loads(lines[-2])
    reading["t"] = json.loads(lines[-1])["end"]["clocks_ns"][0]
    path.write_text("".join([*lines[:-2], json.dumps(reading, separators=(",", ":")) + "\n"]))
    assert outside(tmp_path) == [("an end 10.0 s after run_stop", Severity.ERROR)]


def test_telemetry_of_another_node_has_another_clock(tmp_path: Path) -> None:
    _, path = sample_training(tmp_path, 0.1, 10)
    text = path.read_text()
    observed()(tmp_path / "again")
    shutil.move(tmp_path / "again" / path.name, path)
    shutil.rmtree(tmp_path / "again")
    path.with_name("telemetry_0_node1.jsonl").write_text(text)
    assert outside(tmp_path) == [("an end 10.0 s after run_stop", Severity.WARNING)]


def test_power_is_read_for_two_periods_more(tmp_path: Path) -> None:
    """A meter that tells its value every five seconds keeps the sampler running for ten."""
    lines, path = sample_training(tmp_path, 0.1, 10)
    head = json.loads(lines[0])
    head["channels"].append({"id": 1, "name": "meter", "kind": "power"})
    end = json.loads(lines[-1])
    for name in ("readings", "missed"):
        end["end"][name].append(0)
    readings = [{"t": BEGIN_NS + second * 10**9, "i": 1, "p": 5} for second in (6, 11, 16)]
    documents = [head, *map(json.loads, lines[1:-1]), *readings, end]
    path.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in documents))
    assert outside(tmp_path) == []


@pytest.mark.parametrize(
    ("after_s", "slept_s", "severity"),
    [(-2, 0, Severity.WARNING), (-20, 0, Severity.ERROR), (-20, 20, Severity.WARNING)],
)
def test_a_run_that_is_longer_than_its_telemetry(
    tmp_path: Path, after_s: float, slept_s: int, severity: Severity
) -> None:
    """The end was cut off, unless the machine slept: the sampler's clock stands still then."""
    lines, path = sample_training(tmp_path, 0.1, after_s)
    end = json.loads(lines[-1])
    end["end"]["clocks_ns"][1] += slept_s * 10**9
    path.write_text("".join([*lines[:-1], json.dumps(end, separators=(",", ":")) + "\n"]))
    assert {
        finding.severity
        for finding in Judge().judge_path(str(tmp_path)).findings
        if finding.rule == "telemetry.window" and finding.found.startswith("an end")
    } == {severity}


def test_telemetry_of_training_is_of_the_described_host(tmp_path: Path) -> None:
    """Both systems of a campaign are described."""
    recorded_tree(tmp_path)
    for system in ("box-torch-bf16", "box-torch-fp32"):
        described = tmp_path / f"open/acme/systems/{system}.json"
        before = described.read_text()
        put(host_memory_capacity="1 GiB")(described)
        files = {
            Path(finding.file).name
            for finding in Judge().judge_path(str(tmp_path)).findings
            if finding.rule == "tree.host"
        }
        assert files == {"telemetry_0.jsonl" if "bf16" in system else TELEMETRY_FILE}
        described.write_text(before)


@pytest.mark.parametrize(
    ("memory", "cores", "found"),
    [
        ("12 GiB", 2, []),
        ("12 GB", 16, []),
        ("11.5 GiB", 2, []),
        ("as it is", 2, []),
        ("1 GiB", 2, ["12.0 GiB of memory free"]),
        ("64 GiB", 17, ["17 hardware threads"]),
    ],
)
def test_telemetry_is_of_the_described_host(
    tmp_path: Path, memory: str, cores: int, found: list[str]
) -> None:
    """A small machine that is described in place of the one that ran would be praised for its
    size.
    """
    hosted(12_288.0)(tmp_path)
    put(host_memory_capacity=memory)(tmp_path / "open/acme/systems/box-torch-fp32.json")
    for path in tmp_path.glob(f"**/{TELEMETRY_FILE}"):
        path.write_text(path.read_text().replace('"cores":2', f'"cores":{cores}'))
    result = Judge().judge_path(str(tmp_path))
    assert [finding.found for finding in result.findings if finding.rule == "tree.host"] == found
    assert result.verdict is Verdict.VALID


@pytest.mark.parametrize(
    ("described", "found"),
    [
        ("NVIDIA H100 80GB HBM3", []),
        ("Hopper H100, SXM", []),
        ("nvidia h-100", []),
        (None, []),
        ("NVIDIA B200", ["GPU 'NVIDIA H100'"]),
        ("N/A", ["GPU 'NVIDIA H100'"]),
    ],
)
def test_telemetry_is_of_the_described_gpu(
    tmp_path: Path, described: str | None, found: list[str]
) -> None:
    """The driver names the one that served; whoever sells another one has to edit this, too."""
    hosted(12_288.0)(tmp_path)
    put(accelerator_model_name=described)(tmp_path / "open/acme/systems/box-torch-fp32.json")
    for path in tmp_path.glob(f"**/{TELEMETRY_FILE}"):
        path.write_text(text_of(BEGIN_NS, UTC_NS, 6, gpu=lambda second: {}))
    findings = Judge().judge_path(str(tmp_path)).findings
    assert [each.found for each in findings if each.rule == "tree.host"] == found


def test_the_machine_that_asks_over_a_network_is_not_the_described_one(tmp_path: Path) -> None:
    """Its memory says nothing of the system behind the network."""
    networked(tmp_path)
    for path in tmp_path.glob("**/performance/run_1"):
        (path / TELEMETRY_FILE).write_text(
            text_of(BEGIN_NS, UTC_NS, 6, host=lambda second: {"free_mib": 10.0**6})
        )
    assert "tree.host" not in {
        finding.rule for finding in Judge().judge_path(str(tmp_path)).findings
    }
