"""`podium infer --endpoint` against `podium serve`, with real LoadGen runs: the same answers, and
records that say where they came from.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from podium_fakes.drive import entry, options, until_valid
from podium_fakes.kept import keep_checkpoint, run_record, verdict_of
from podium_fakes.remote import SHORT, Served, forked, measure, served
from warm import Warm

from harness.serving import infer
from suite.errors import RequestError
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.scenario import Scenario
from suite.terms import NETWORK_FIELDS


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    """One server for all tests."""
    with served(folder / "results") as ready:
        yield ready


@pytest.fixture(scope="module")
def remote(folder: Path, server: Served) -> Path:
    """Offline and Server over the network, and in this process, once; the system's folder of the
    first.
    """
    both = (Scenario.OFFLINE, Scenario.SERVER)
    until_valid(lambda: measure(folder / "results", server.url, scenarios=both, system="far"))
    near = options(folder / "results", *SHORT, system="near")
    until_valid(
        lambda: infer.serve_workload("fake", near, scenarios=both, mode="all", checkpoint=None)
    )
    return entry(folder / "results").locate_benchmark("fake").parents[1] / "far" / "fake"


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["Offline", "Server"])
def test_answers_over_the_network_are_those_in_process(remote: Path, scenario: str):
    """A wire that changes a byte, or puts answers to other samples, would serve another model."""
    far, near = (
        dict(read_logged_answers(base / scenario / "accuracy"))
        for base in (remote, remote.parents[1] / "near" / "fake")
    )
    assert far == near and len(far) == 100


@pytest.mark.slow
def test_the_record_says_what_was_between(remote: Path):
    """Who reads the figures has to know that a network was measured, and that both sides were one
    machine.
    """
    record = run_record(remote / "Server/performance/run_1")
    network = record.network
    assert (
        network
        and network.loopback
        and network.machines == (network.loadgen_machine,)
        and not network.is_on_other_machines
    )
    assert network.bytes_in == 4 * read_detail_log(
        remote / "Server/performance/run_1"
    ).require_number("result_query_count")
    assert (
        network.bytes_out > network.bytes_in
        and 0 < network.round_trip_p50_ns[0] <= network.round_trip_p99_ns[0]
    )
    assert (record.system.division, record.system.engine) == ("open", "fake")
    assert verdict_of(remote / "Server/performance/run_1") == "VALID"


@pytest.mark.slow
def test_loadgen_logs_the_network_name(remote: Path):
    """MLPerf's Network Division asks for it, and for a round trip inside Name()."""
    facts = read_detail_log(remote / "Server/performance/run_1").values
    assert (
        str(facts["sut_name"]).startswith("Network SUT: podium at 127.0.0.1:")
        and int(str(facts["get_sut_name_duration_ns"])) > 10_000
    )


@pytest.mark.slow
def test_each_sample_is_one_request(remote: Path):
    """The QDL may neither batch nor pad: inference_rules.adoc, Network Division."""
    record = run_record(remote / "Offline/performance/run_1")
    facts = read_detail_log(remote / "Offline/performance/run_1")
    assert record.batches["mean_size"] == 1 and record.batches["count"] == facts.require_number(
        "result_query_count"
    ) * facts.require_number("generated_samples_per_query")


@pytest.mark.slow
def test_the_description_has_the_fields_of_a_network(remote: Path):
    """MLCommons' checker asks for thirteen; nobody invents the ones that only the owner knows."""
    told = json.loads((remote.parents[2] / "systems/far.json").read_text())
    assert (
        told["is_network"] == "true"
        and "gRPC" in told["network_protocol"]
        and told["network_topology"] is None
    )
    assert told.keys() >= set(NETWORK_FIELDS)


@pytest.mark.slow
def test_two_servers_share_the_queries(light: Warm, folder: Path, server: Served):
    """Towards LoadGen there is one system: all servers are asked, and all must serve the same."""
    with forked(light, folder / "results") as other:
        measure(folder / "results", server.url, other.url, mode="performance", system="both")
    run = (
        entry(folder / "results").locate_benchmark("fake").parents[1]
        / "both/fake/Offline/performance/run_1"
    )
    assert (
        str(read_detail_log(run).values["sut_name"]).count("podium at 127.0.0.1:") == 2
        and len(run_record(run).network.endpoints) == 2
    )  # type: ignore[union-attr]


REFUSED = [
    ("fake.gain=0.5", "fake.gain is"),
    ("batching.max_batch=3", "it is the server's"),
    ("endpoint.in_flight=0", "below 1"),
]


@pytest.mark.slow
@pytest.mark.parametrize("assignment, why", REFUSED)
def test_settings_that_do_not_match_are_refused(
    folder: Path, server: Served, assignment: str, why: str
):
    """A record would tell settings that were not served."""
    with pytest.raises(RequestError, match=why):
        measure(folder / "results", server.url, settings=(assignment,))


@pytest.mark.slow
def test_another_checkpoint_is_refused(folder: Path, server: Served, tmp_path: Path):
    """The accuracy of one model would stand beside the speed of another."""
    keep_checkpoint(tmp_path / "results", weight=0.9)
    with pytest.raises(
        RequestError, match="serves checkpoint [0-9a-f]{16}, and here [0-9a-f]{16} is measured"
    ):
        measure(tmp_path / "results", server.url)
    assert not list((tmp_path / "results").glob("open"))


@pytest.mark.slow
def test_a_training_set_that_is_elsewhere_is_told_before_the_clock(
    folder: Path, server: Served, capsys: pytest.CaptureFixture[str]
):
    """The runs ended VALID, and then `podium check` called them broken."""
    until_valid(lambda: measure(folder / "results", server.url, mode="accuracy", system="alone"))
    told = capsys.readouterr().out
    before, _, after = told.partition("the checkpoint's run set is not in")
    assert "probe:" not in before and "probe:" in after
    assert "under --org tests" in after and "copy open/tests/results/testbed/resnet here" in after
