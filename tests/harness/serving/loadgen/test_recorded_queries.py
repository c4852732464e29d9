"""The record of a run's queries beside LoadGen's own figures, of real runs over a system that does
nothing.
"""

from pathlib import Path

import numpy
import pytest
from podium_fakes.served import Served, job

from compliance import within_run
from compliance.kinds.podium.documents.inference import LoadGenRun, read_loadgen_run
from compliance.kinds.podium.rules.inference import queries as rules
from compliance.loadgen_replay import MersenneTwister
from compliance.verdict import Severity
from harness.serving.loadgen.session import run_loadgen_in_child
from suite import registry
from suite.files.layout import QUERY_RECORD_FILE, TELEMETRY_FILE
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

RULES = (rules.times, rules.count, rules.arrivals, rules.latencies)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[Scenario, Path]:
    folders = {scenario: tmp_path_factory.mktemp(scenario.value) for scenario in Scenario}
    for scenario, folder in folders.items():
        with run_loadgen_in_child(job(folder, scenario, facts=Served(pause_s=0.001))):
            pass
    return {scenario: folder / "run" for scenario, folder in folders.items()}


def read(folder: Path, scenario: Scenario) -> LoadGenRun:
    return read_loadgen_run(folder, Mode.PERFORMANCE, scenario, registry.load_round())


def flaws(run: LoadGenRun) -> list[str]:
    """Name the flaws of the two files; a run of the fakes has no run.json."""
    return [
        flaw.kind.value
        for source in run.sources
        if source.path.name in (QUERY_RECORD_FILE, TELEMETRY_FILE)
        for flaw in source.parse_errors
    ]


def found(run: LoadGenRun) -> list[str]:
    return [finding.rule for rule in RULES for finding in rule(run)]


def spoilt(folder: Path, target: Path, **columns: object) -> Path:
    """Copy a run, with columns of its queries replaced."""
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    rows = numpy.load(folder / QUERY_RECORD_FILE)
    for name, column in columns.items():
        rows[name] = column
    numpy.save(target / QUERY_RECORD_FILE, rows)
    return target


@pytest.mark.slow
@pytest.mark.parametrize("scenario", Scenario)
def test_what_the_harness_writes_keeps_the_rules(scenario: Scenario, runs: dict[Scenario, Path]):
    """A warning on every good run would teach nobody anything. On a crowded host LoadGen may be
    late; then the arrivals are said to be.
    """
    run = read(runs[scenario], scenario)
    assert run.queries is not None and len(run.queries) and not flaws(run)
    assert set(found(run)) <= {"queries.arrivals"}


@pytest.mark.slow
def test_completions_before_issues_are_found(runs: dict[Scenario, Path], tmp_path: Path):
    """Edited times show a latency that nobody had."""
    rows = numpy.load(runs[Scenario.SERVER] / QUERY_RECORD_FILE)
    run = read(
        spoilt(runs[Scenario.SERVER], tmp_path / "run", done_ns=rows["issued_ns"] - 5),
        Scenario.SERVER,
    )
    assert "queries.times" in found(run) and all(
        finding.severity is Severity.WARNING for rule in RULES for finding in rule(run)
    )


@pytest.mark.slow
def test_arrivals_of_another_seed_are_found(runs: dict[Scenario, Path], tmp_path: Path):
    """A record of a run with other arrivals tells of another load."""
    run = read(runs[Scenario.SERVER], Scenario.SERVER)
    rate, draw = float(run.find_number("effective_target_qps") or 0), MersenneTwister(12345)
    gaps = numpy.array(
        [-numpy.log(1 - draw.generate_real()) / rate * 1e9 for _ in range(len(run.queries or ()))]
    ).astype("i8")
    issued = numpy.load(runs[Scenario.SERVER] / QUERY_RECORD_FILE)["issued_ns"][0] + numpy.cumsum(
        gaps
    )
    other = read(
        spoilt(
            runs[Scenario.SERVER], tmp_path / "run", issued_ns=issued, done_ns=issued + 10_000_000
        ),
        Scenario.SERVER,
    )
    assert "queries.arrivals" in found(other)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario", [Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM, Scenario.SERVER]
)
def test_other_latencies_than_loadgens_are_found(
    scenario: Scenario, runs: dict[Scenario, Path], tmp_path: Path
):
    """The record must not tell a better run than LoadGen measured."""
    rows = numpy.load(runs[scenario] / QUERY_RECORD_FILE)
    assert "queries.latencies" in found(
        read(
            spoilt(runs[scenario], tmp_path / "run", done_ns=rows["done_ns"] + 50_000_000), scenario
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [Scenario.SINGLE_STREAM, Scenario.OFFLINE])
def test_other_counts_than_loadgens_are_found(
    scenario: Scenario, runs: dict[Scenario, Path], tmp_path: Path
):
    """Rows of a longer or shorter run."""
    assert "queries.count" in found(
        read(spoilt(runs[scenario], tmp_path / "run", samples=3), scenario)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "shape"),
        (b"PK\x03\x04", "shape"),
        (b"\x93NUMPY\x02\x00\x10\x00\x00\x00", "shape"),
        (
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
            + b" " * 61
            + b"\n"
            + b"cos\nsystem\n",
            "shape",
        ),
    ],
)
def test_a_file_that_is_no_such_table_is_never_unpickled(
    runs: dict[Scenario, Path], tmp_path: Path, content: bytes, kind: str
):
    """Anybody's bytes: a pickle in it would be a program."""
    folder = spoilt(runs[Scenario.SERVER], tmp_path / "run")
    (folder / QUERY_RECORD_FILE).write_bytes(content)
    run = read(folder, Scenario.SERVER)
    assert run.queries is None and flaws(run) == [kind] and found(run) == []


@pytest.mark.slow
@pytest.mark.parametrize("change", ["float", "renamed", "short", "long"])
def test_the_fields_are_compared_exactly(runs: dict[Scenario, Path], tmp_path: Path, change: str):
    """Other types would be read as other numbers."""
    folder, rows = (
        spoilt(runs[Scenario.SERVER], tmp_path / "run"),
        numpy.load(runs[Scenario.SERVER] / QUERY_RECORD_FILE),
    )
    if change == "float":
        numpy.save(
            folder / QUERY_RECORD_FILE,
            rows.astype(
                [("issued_ns", "<f8"), ("done_ns", "<i8"), ("batch", "<u4"), ("samples", "<u4")]
            ),
        )
    elif change == "renamed":
        rows.dtype.names = ("issued_ns", "done_ns", "batch", "queries")
        numpy.save(folder / QUERY_RECORD_FILE, rows)
    else:
        whole = (folder / QUERY_RECORD_FILE).read_bytes()
        (folder / QUERY_RECORD_FILE).write_bytes(whole[:-1] if change == "short" else whole + b"\0")
    run = read(folder, Scenario.SERVER)
    assert run.queries is None and len(flaws(run)) == 1


def rebuilt(folder: Path) -> list[tuple[float, float]]:
    """Do a Server run; give LoadGen's p50, p90 and p99 with those made of the seed and the record,
    in ns.
    """
    with run_loadgen_in_child(job(folder, Scenario.SERVER, facts=Served(pause_s=0.001))):
        pass
    run = read(folder / "run", Scenario.SERVER)
    began = rules.recompute_due_times(run)
    assert run.queries is not None
    percentiles = (50.0, 90.0, 99.0)
    ours = within_run.compute_percentiles_ns(began, run.queries.done_ns, percentiles)
    return [
        (run.find_number(f"result_{each:.2f}_percentile_latency_ns") or 0.0, value)
        for each, value in zip(percentiles, ours, strict=True)
    ]


@pytest.mark.slow
def test_the_schedule_rebuilt_from_the_seed_gives_loadgens_percentiles(tmp_path: Path):
    """Issue to completion is not Server's latency: its clock starts when a query is due. Bounds as
    wide as a crowded host needs.
    """
    for told, ours in rebuilt(tmp_path):
        assert abs(ours - told) < max(0.05 * told, 2e6)


@pytest.mark.slow
def test_twenty_runs_are_rebuilt(tmp_path: Path):
    """p50, p90 and p99 within 1 % or 0.1 ms of LoadGen's in each of twenty runs.

    One in which LoadGen's thread was never on time is made again, twice at most: a wrong rebuild is
    wrong in all.
    """

    def apart(number: int, turn: int) -> bool:
        return any(
            abs(ours - told) > max(0.01 * told, 1e5)
            for told, ours in rebuilt(tmp_path / f"{number}-{turn}")
        )

    assert not [number for number in range(20) if all(apart(number, turn) for turn in range(3))]
