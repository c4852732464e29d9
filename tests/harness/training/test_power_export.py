"""`podium power export`: what MLPerf's own tool reads of the files is the energy that podium
computed.
"""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from mlperf_logging.compliance_checker.mlp_parser import parse_file
from podium_fakes.drive import events, log_path, options

from harness.commands.power import power
from harness.training.energy import compute_run_energy
from harness.training.power_export import find_node_telemetry
from harness.training.run_set import train_run_set
from suite.errors import JudgedError, PodiumError, RequestError


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a second beside a meter of 100 W."""
    results = tmp_path_factory.mktemp("metered") / "results"
    train_run_set(
        "fake",
        options(
            results,
            "fake.evaluate_s=0.3",
            power="off",
            meter="podium meter fake --watts 100 --period-ms 20",
        ),
        seed=1,
        runs=1,
    )
    return log_path(results)


@pytest.fixture
def own(trained: Path, tmp_path: Path) -> Path:
    """A log and its telemetry that a test may change."""
    for path in (trained, trained.with_name("telemetry_0.jsonl")):
        shutil.copy(path, tmp_path)
    return tmp_path / trained.name


def exported(*words: object) -> PodiumError | None:
    """Run the command; return its error."""
    result = CliRunner().invoke(power, ["export", *map(str, words)])
    assert result.exit_code == 0 or isinstance(result.exception, PodiumError), result.output
    return result.exception if isinstance(result.exception, PodiumError) else None


@pytest.mark.slow
def test_mlperfs_sum_over_the_file_is_the_energy_of_the_run(trained: Path, tmp_path: Path) -> None:
    """result_summarizer.py adds the readings up by itself."""
    from mlperf_logging.result_summarizer import (
        result_summarizer,
    )  # loads scipy.stats, which takes a second

    assert exported(trained, "-o", tmp_path) is None
    path = tmp_path / "power" / "result_0" / "node_0.txt"
    told, failed = parse_file(str(path), "5.1.0")
    assert (
        failed == []
        and told[0].key == "power_measurement_start"
        and told[-1].key == "power_measurement_stop"
    )
    logged = {event["key"]: event for event in events(trained)}
    lasted_ms = logged["run_stop"]["time_ms"] - logged["run_start"]["time_ms"]
    ((energy,), _) = compute_run_energy(trained, next(find_node_telemetry(trained))) or ((), ())
    read_ms = (
        told[-2].timestamp - told[0].timestamp
    )  # from the last reading to the stop MLPerf's tool adds nothing, however busy the machine
    assert result_summarizer._compute_power_node(told, lasted_ms) == pytest.approx(
        energy.joules * read_ms / lasted_ms, rel=0.01
    )
    assert all(
        json.loads(line.removeprefix(":::MLLOG "))["metadata"] == {"host": "node_0"}
        for line in path.read_text().splitlines()
    )
    assert isinstance(exported(trained, "-o", tmp_path), RequestError)


@pytest.mark.slow
def test_each_node_has_a_file(own: Path, tmp_path: Path) -> None:
    """A cluster's other nodes have telemetry of their own."""
    shutil.copy(own.with_name("telemetry_0.jsonl"), own.with_name("telemetry_0_node1.jsonl"))
    assert exported(own, "-o", tmp_path / "out") is None
    assert sorted(path.name for path in (tmp_path / "out" / "power" / "result_0").iterdir()) == [
        "node_0.txt",
        "node_1.txt",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            '"scope":["system"]',
            '"scope":["package0"]',
            "MLPerf requires readings of a whole node, and these are of meter (package0)",
        ),
        ('{"end"', '{"ende"', "has no energy"),
        ('"channels"', '"Channels"', "telemetry_0.jsonl"),
    ],
    ids=["a part", "cut off", "no telemetry"],
)
def test_readings_that_are_no_nodes_are_refused(
    own: Path, tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    """MLPerf's figure is that of the whole system; and nothing is left behind."""
    path = own.with_name("telemetry_0.jsonl")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    error = exported(own, "-o", tmp_path / "out")
    assert (
        isinstance(error, JudgedError)
        and sentence in str(error)
        and not (tmp_path / "out").exists()
    )


@pytest.mark.slow
def test_what_is_no_log_is_refused(own: Path, tmp_path: Path) -> None:
    """A wrong name is the user's, a log without an end the run's."""
    assert isinstance(
        exported(own.with_name("telemetry_0.jsonl"), "-o", tmp_path / "out"), RequestError
    )
    own.write_text(own.read_text().partition("run_stop")[0].rpartition("\n")[0] + "\n")
    assert "its clock has not stopped" in str(exported(own, "-o", tmp_path / "out"))
    own.write_bytes(b"\xff\n")
    assert "no training log that podium wrote whole" in str(exported(own, "-o", tmp_path / "out"))


@pytest.mark.slow
def test_a_run_without_a_sampler_has_nothing_to_export(own: Path, tmp_path: Path) -> None:
    own.with_name("telemetry_0.jsonl").unlink()
    assert "no telemetry beside it" in str(exported(own, "-o", tmp_path / "out"))
