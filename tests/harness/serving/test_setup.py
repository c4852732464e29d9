"""What all LoadGen runs of a command have in common is settled, or refused, before the first of
them starts.
"""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from podium_fakes import records
from podium_fakes.drive import options
from podium_fakes.engine import FakeEngine
from podium_fakes.kept import NONCE, keep_checkpoint

from harness import engine_choice
from harness.request import choose_served_framework, resolve_request
from harness.serving.loadgen.batching import BatchingSettings
from harness.serving.setup import ServingSetup, read_batching_settings, set_up_serving
from harness.training.run_set import train_run_set
from suite import registry
from suite.errors import MissingError, PodiumError, RequestError
from suite.files.layout import compute_bound_seed
from suite.loadgen.scenario import Scenario
from suite.rounds import TokenBounds
from suite.terms import Precision, Profile


def ready(results: Path, *assignments: str, **changes: Any) -> ServingSetup:
    """Set up the fake workload on a checkpoint of its own."""
    keep_checkpoint(results)
    return set_up_serving("fake", options(results, *assignments, **changes), None)


def test_a_bench_holds_what_every_run_shares(tmp_path: Path):
    """The seed of the accuracy log binds each run to campaign and weights; results lie under engine
    and precision.
    """
    bench = ready(tmp_path, system=None)
    assert bench.log_seed == compute_bound_seed(NONCE, bench.checkpoint.record.sha256)
    assert bench.entry.system.endswith("-fake-fp32") and bench.entry.division == "open"
    assert (
        bench.system.checkpoint == bench.checkpoint.folder
        and bench.system.run.seed == bench.checkpoint.record.seed
    )
    assert bench.row == registry.load_round().benchmark("fake").inference[Profile.SMOKE]


def test_fp32_is_served_unless_somebody_asks_for_less(tmp_path: Path):
    """The workload's own precision is training's."""
    assert ready(tmp_path, precision=None).precision is Precision.FP32
    assert (
        set_up_serving(
            "fake", options(tmp_path, precision=Precision.BF16), None
        ).system.run.precision
        is Precision.BF16
    )


@pytest.mark.parametrize(
    ("threads", "workers", "each"), [(8, 2, 4), (2, 2, 1), (1, 2, 1), (7, 3, 2)]
)
def test_workers_share_the_threads(tmp_path: Path, threads: int, workers: int, each: int):
    """Each worker of a pool with all threads would make as many threads as cores times workers."""
    bench = ready(tmp_path, f"batching.workers={workers}", threads=threads)
    assert bench.threads == threads and bench.system.run.threads == each


def test_a_profile_without_inference_is_refused(tmp_path: Path):
    """The fake has none in full: nothing may be served by another profile's rules."""
    with pytest.raises(
        RequestError, match="fake has no inference rules in profile full of round podium-v1"
    ):
        set_up_serving("fake", options(tmp_path, profile=Profile.FULL), None)


@pytest.mark.parametrize(
    ("workload", "assignment", "words"),
    [
        ("ssd", "model.configuration=1200", "model.configuration is '1200'; it must be 300"),
        ("transformer", "decode.beam=1", "decode.beam is 1; it must be 4"),
        ("maskrcnn", "roi.detections=8", "roi.detections is 8; it must be 100"),
        ("resnet50", "data.skip_broken=true", "data.skip_broken is True; it must be False"),
    ],
)
def test_what_the_closed_division_does_not_allow_is_refused_before_anything_is_looked_for(
    tmp_path: Path, workload: str, assignment: str, words: str
):
    """As training does; there is not even a checkpoint yet."""
    asked = options(
        tmp_path / "results",
        assignment,
        profile=Profile.FULL,
        framework="torch",
        engine="torch",
        data=tmp_path,
    )
    with pytest.raises(
        RequestError, match=re.escape(f"not allowed in the closed division: {words}")
    ):
        set_up_serving(workload, asked, None)


def test_what_is_free_in_the_closed_division_is_not_refused(tmp_path: Path):
    """Batching is the system's; what lacks is the checkpoint."""
    asked = options(
        tmp_path / "results",
        "batching.max_batch=2",
        profile=Profile.FULL,
        framework="torch",
        engine="torch",
        data=tmp_path,
    )
    with pytest.raises(PodiumError, match="checkpoint"):
        set_up_serving("ssd", asked, None)


def test_a_scenario_without_rules_is_refused_with_those_that_there_are(tmp_path: Path):
    """A run without a bound or a percentile could not be judged."""
    bench = ready(tmp_path)
    assert bench.require_scenario_rules(Scenario.SERVER).bound_ns == 500_000_000
    alone = {Scenario.OFFLINE: bench.row.scenarios[Scenario.OFFLINE]}
    with pytest.raises(RequestError, match="no rules for server in profile smoke; it has: offline"):
        replace(bench, row=replace(bench.row, scenarios=alone)).require_scenario_rules(
            Scenario.SERVER
        )
    with pytest.raises(RequestError, match="it has: none"):
        replace(bench, row=replace(bench.row, scenarios={})).require_scenario_rules(Scenario.SERVER)


def test_all_scenarios_are_those_of_the_row(tmp_path: Path):
    """`podium infer llama` asked for MultiStream, which no rule serves a language model in."""
    bench = ready(tmp_path)
    two = {each: bench.row.scenarios[each] for each in (Scenario.SERVER, Scenario.OFFLINE)}
    fewer = replace(bench, row=replace(bench.row, scenarios=two))
    assert set(fewer.select_row_scenarios(tuple(Scenario))) == set(two)
    assert fewer.select_row_scenarios([Scenario.MULTI_STREAM]) == [Scenario.MULTI_STREAM]


def test_tighter_bounds_are_those_of_the_row_or_refused(tmp_path: Path):
    """MLPerf's Interactive: Server within other bounds, and no scenario else."""
    bench = ready(tmp_path)
    asked = {**bench.request.settings, "tokens.bounds": "interactive"}
    bench = replace(bench, request=replace(bench.request, settings=asked))
    with pytest.raises(RequestError, match="has no interactive bounds in profile smoke"):
        bench.require_scenario_rules(Scenario.SERVER)
    tighter = TokenBounds(first_token_ns=5, per_token_ns=3)
    server = replace(
        bench.row.scenarios[Scenario.SERVER],
        first_token_ns=20,
        per_token_ns=10,
        interactive=tighter,
    )
    row = replace(bench.row, scenarios={**bench.row.scenarios, Scenario.SERVER: server})
    bench = replace(bench, row=row)
    found = bench.require_scenario_rules(Scenario.SERVER)
    assert (found.first_token_ns, found.per_token_ns) == (5, 3)
    offline = bench.require_scenario_rules(Scenario.OFFLINE)
    assert offline is bench.row.scenarios[Scenario.OFFLINE]


def test_an_engine_that_takes_no_such_network_is_refused(tmp_path: Path):
    """Found out before LoadGen starts, not in its child."""
    keep_checkpoint(tmp_path)
    with pytest.raises(
        RequestError, match="engine torch does not accept fake networks, only torch"
    ):
        set_up_serving("fake", options(tmp_path, engine="torch"), None)


def test_an_engine_gets_networks_of_a_framework_that_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """`--engine tensorflow` alone is enough where the workload has the network in both; what is
    written down is what was served.
    """

    class Two:
        accepts = frozenset({"second", "third"})

    monkeypatch.setattr(registry, "load_engine", lambda name: Two())
    both = replace(records.FAKE, frameworks=frozenset({"first", "second"}))
    two = registry.load_engine("two")
    assert choose_served_framework(two, "first", both) == "second"
    assert choose_served_framework(two, "third", both) == "third"
    one = replace(records.FAKE, frameworks=frozenset({"first"}))
    assert choose_served_framework(two, "first", one) == "first"


def test_what_is_served_is_what_the_records_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run, records and the system's description take the framework from one place, the request as
    it was settled.
    """
    monkeypatch.setattr(
        records, "FAKE", replace(records.FAKE, frameworks=frozenset({"torch", "fake"}))
    )
    bench = ready(tmp_path, framework="torch")
    assert bench.system.run.framework == bench.request.framework == "fake"


def test_an_engine_that_lacks_a_format_says_so(tmp_path: Path):
    """Exit 3: another machine, or another package, could."""
    keep_checkpoint(tmp_path)
    with pytest.raises(MissingError, match="engine fake: has no int4"):
        set_up_serving("fake", options(tmp_path, precision=Precision.INT4), None)


def test_engines_are_asked_with_the_device_and_precision_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An engine may do int8 on one device and not on another."""
    asked: list[tuple[str, Precision]] = []

    class Curious(FakeEngine):
        def missing(self, device: str, precision: Precision) -> str | None:
            asked.append((device, precision))
            return None

    monkeypatch.setattr(engine_choice.registry, "load_engine", lambda name: Curious())
    ready(tmp_path, precision=Precision.BF16)
    assert asked == [("cpu", Precision.BF16)]


def test_a_quantised_format_without_a_calibration_list_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Ranges from samples that no list names could be those of the accuracy set; the row says why
    there is no list.
    """
    monkeypatch.setattr(FakeEngine, "missing", lambda *_: None)
    words = (
        "fake: int8 needs a calibration list, and the round has no list of this workload:"
        " it answers by arithmetic$"
    )
    with pytest.raises(MissingError, match=words):
        ready(tmp_path, precision=Precision.INT8)
    monkeypatch.setattr(engine_choice, "QUANTISED", ())
    assert ready(tmp_path / "other", precision=Precision.INT8).precision is Precision.INT8


@pytest.mark.parametrize(
    ("assignment", "wanted"),
    [
        ("batching.workers=2", BatchingSettings(workers=2, max_batch=32, window_us=0)),
        ("batching.max_batch=1", BatchingSettings(workers=1, max_batch=1, window_us=0)),
        ("batching.window_us=250", BatchingSettings(workers=1, max_batch=32, window_us=250)),
    ],
)
def test_batching_is_what_the_settings_say(
    tmp_path: Path, assignment: str, wanted: BatchingSettings
):
    """One knob each; the others stay the round's."""
    found = read_batching_settings(resolve_request(options(tmp_path, assignment), "fake").settings)
    assert found == replace(
        wanted, max_batch=found.max_batch if "max_batch" not in assignment else wanted.max_batch
    )


@pytest.mark.parametrize(
    "assignment",
    [
        "batching.workers=0",
        "batching.max_batch=0",
        "batching.window_us=-1",
        "batching.max_batch=-5",
    ],
)
def test_batching_that_makes_no_sense_is_refused(tmp_path: Path, assignment: str):
    """No worker answers nothing; a window before now never opens."""
    key, _, value = assignment.partition("=")
    with pytest.raises(RequestError, match=rf"setting {key}: {value} is below"):
        read_batching_settings(resolve_request(options(tmp_path, assignment), "fake").settings)


def test_more_workers_than_a_machine_can_bear_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A slip of the finger would bring the machine to a halt."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    assert (
        read_batching_settings(
            resolve_request(options(tmp_path, "batching.workers=128"), "fake").settings
        ).workers
        == 128
    )
    with pytest.raises(RequestError, match="129 threads are too many for 2 cores"):
        read_batching_settings(
            resolve_request(options(tmp_path, "batching.workers=129"), "fake").settings
        )


def test_an_option_that_an_engine_would_pass_over_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records would name it beside a figure that it had no part in; engines that do not say
    what they take get everything.
    """
    assert (
        ready(tmp_path / "silent", "engine.compile=true").request.settings["engine.compile"] is True
    )
    monkeypatch.setattr(FakeEngine, "options", frozenset({"engine.provider"}), raising=False)
    with pytest.raises(
        RequestError, match="--set engine.compile: engine fake takes engine.provider$"
    ):
        ready(tmp_path / "other", "engine.compile=true", "engine.provider=auto")
    monkeypatch.setattr(FakeEngine, "options", frozenset())
    assert (
        ready(tmp_path / "none").precision is Precision.FP32
    )  # the round's own values are nobody's choice
    with pytest.raises(RequestError, match="engine fake takes no such options"):
        ready(tmp_path / "chosen", "engine.compile=true")


@pytest.mark.parametrize(
    "name", [name for name in registry.map_entry_points(registry.ENGINE_GROUP) if name != "fake"]
)
def test_engines_take_options_that_there_are(name: str) -> None:
    """A name spelled in another way than the setting's would refuse what it takes."""
    try:
        taken = registry.find_engine_options(registry.load_engine(name))
    except MissingError as error:
        pytest.skip(str(error))
    assert taken is None or taken <= set(registry.load_round().settings)


def test_every_option_has_an_engine_that_takes_it() -> None:
    """One that none takes would be refused everywhere."""
    engines = [
        name
        for name in registry.map_entry_points(registry.ENGINE_GROUP)
        if name in ("torch", "onnxruntime", "tensorflow", "tensorrt")
    ]
    taken = frozenset().union(
        *(registry.find_engine_options(registry.load_engine(name)) or () for name in engines)
    )
    assert {key for key in registry.load_round().settings if key.startswith("engine.")} <= taken


def test_an_engine_that_cannot_serve_is_refused_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign trains for minutes, or for days, before it serves."""
    with pytest.raises(RequestError, match="engine torch does not accept fake networks"):
        train_run_set("fake", options(tmp_path, engine="torch"))
    monkeypatch.setattr(engine_choice.registry, "load_engine", lambda name: FakeEngine())
    with pytest.raises(MissingError, match="engine torch: has no int4"):
        train_run_set("fake", options(tmp_path, engine="torch", precision=Precision.INT4))
    assert not list(tmp_path.rglob("result_*.txt"))


def test_an_engine_without_the_format_names_one_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--precision int8` alone asks PyTorch, which has none."""
    monkeypatch.setattr(
        engine_choice, "supports_request", lambda name, request: name == "onnxruntime"
    )
    monkeypatch.setattr(FakeEngine, "missing", lambda *_: "has no int8; it has fp32")
    with pytest.raises(MissingError, match="; --engine onnxruntime has it$"):
        ready(tmp_path, precision=Precision.INT8)


def test_instances_are_one_worker_each_and_nothing_beside_workers(tmp_path: Path):
    """Threads inside several processes would need a placement of their own."""
    bench = ready(tmp_path, "sut.instances=1", threads=2)
    assert len(bench.system.placement) == bench.system.workers == 1
    with pytest.raises(RequestError, match="give one of the two"):
        set_up_serving("fake", options(tmp_path, "sut.instances=1", "batching.workers=2"), None)
    with pytest.raises(RequestError, match="too many for"):
        set_up_serving("fake", options(tmp_path, "sut.instances=100000"), None)
