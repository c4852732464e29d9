"""The state of a campaign: what it remembers, whose results are its own, and what a changed request
leads to.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from system_records import put_system

from compliance.kinds.podium.results import log_values
from compliance.verdict import Finding
from submissions.campaign import requested_options
from submissions.campaign.requested_options import RequestedOptions
from submissions.campaign.state import (
    Campaign,
    CampaignStage,
    begin_campaign,
    list_training_states,
    locate_campaign_state,
    read_campaign_state,
)
from submissions.result_index import find_results
from suite import registry
from suite.cli import RunOptions
from suite.errors import RequestError
from suite.files.chosen_engine import ChosenEngine, EngineFigures, write_chosen_engine
from suite.files.layout import STATE_FOLDER, locate_staged_campaign
from suite.loadgen.scenario import Scenario
from suite.rounds.settings import SCENARIO_BY_PREFIX
from suite.terms import Precision, Profile

NONCE = "0123456789abcdef" * 2

pytestmark = pytest.mark.usefixtures("objections")


def options(results: Path, *assignments: str, **changes: Any) -> RunOptions:
    """What a user types, with everything else as it is without it."""
    usual = RunOptions(
        profile=Profile.SMOKE,
        framework="torch",
        engine="torch",
        input="default",
        data=None,
        results=results,
        device="auto",
        precision=None,
        threads=0,
        config=None,
        assignments=assignments,
        org="acme",
        system=None,
    )
    return replace(usual, **changes)


def keep(
    results: Path,
    *,
    nonce: str = NONCE,
    endings: dict[str, str] | None = None,
    runs: int = 1,
    seed: int = 5,
    **identity: Any,
) -> None:
    """Write the harness's own state of a set that was asked for with the usual options."""
    told = requested_options.parse_requested_options(
        "resnet50", options(results), None, None
    ).training
    settings = {
        f"setting {key}": value
        for key, value in told.items()
        if "." in key or key.startswith(("sgd", "lars", "opt", "model", "global"))
    }
    named = {
        "profile": "smoke",
        "org": "acme",
        "framework": "torch",
        "input": "default",
        "data": None,
        "system": "host-torch-bf16",
    }
    document = {
        "nonce": nonce,
        "seed": seed,
        "runs": runs,
        "logs": "x",
        "identity": {**settings, **named, **identity},
        "endings": endings or {},
    }
    path = results / STATE_FOLDER / "resnet50" / "campaign.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def started(
    results: Path,
    *assignments: str,
    seed: int | None = None,
    runs: int | None = None,
    **changes: Any,
) -> Campaign:
    return begin_campaign("resnet50", options(results, *assignments, **changes), seed, runs)


@pytest.fixture
def trained(tmp_path: Path, make_tree: Callable[..., Path]) -> Path:
    """A finished run set with four scenarios that were served as the usual options ask, and
    the harness's state of it.
    """
    serving = requested_options.parse_requested_options(
        "resnet50", options(tmp_path), None, None
    ).serving
    results = make_tree(
        tmp_path / "trained", settings={key: value for key, value in serving.items() if "." in key}
    )
    keep(results, endings={"0": "reached"})
    return results


# ---- beginning, going on, adopting ----


def test_a_campaign_remembers_what_it_was_asked_for(tmp_path: Path) -> None:
    """The next command goes on only with the same."""
    campaign = started(tmp_path, seed=3)
    found = read_campaign_state(tmp_path, "resnet50")
    assert (
        found == campaign.state
        and found is not None
        and found.stage is CampaignStage.RUNNING
        and found.asked.training["seed"] == 3
    )
    assert read_campaign_state(tmp_path, "other") is None


def test_a_workload_that_is_not_there_begins_nothing(tmp_path: Path) -> None:
    """A typo leaves no state behind."""
    with pytest.raises(RequestError, match="did you mean 'resnet50'"):
        begin_campaign("resnet5", options(tmp_path), None, None)
    assert not list(tmp_path.iterdir())


def test_the_same_request_goes_on(tmp_path: Path) -> None:
    """However it is spelled: a setting at its own value changes nothing."""
    first = started(tmp_path)
    again = started(tmp_path, "global_batch_size=64")
    assert again.state.asked == first.state.asked and again.state.earlier == first.state.earlier


@pytest.mark.parametrize(
    ("assignments", "changes", "words"),
    [
        (("global_batch_size=128",), {}, "global_batch_size 64, not 128"),
        ((), {"precision": Precision.BF16}, "precision fp32, not bf16"),
        ((), {"system": "other"}, "system None, not other"),
        (("server.qps_share=0.4",), {}, "server.qps_share 0.5, not 0.4"),
    ],
)
def test_an_unfinished_campaign_is_not_changed_under_way(
    tmp_path: Path, assignments: tuple[str, ...], changes: dict[str, Any], words: str
) -> None:
    """Half of the results would be of one request, half of another."""
    started(tmp_path)
    with pytest.raises(RequestError, match=words):
        started(tmp_path, *assignments, **changes)


def test_a_seed_or_a_number_of_runs_is_part_of_the_request(tmp_path: Path) -> None:
    """Another seed is another set."""
    started(tmp_path, seed=1)
    with pytest.raises(RequestError, match="seed 1, not 2"):
        started(tmp_path, seed=2)


@pytest.mark.parametrize("stage", [CampaignStage.FINISHED, CampaignStage.MISSED])
def test_after_the_end_another_request_begins_anew(trained: Path, stage: CampaignStage) -> None:
    """The set that lies there is an earlier campaign's, whatever its nonce: it stays until the new
    one is whole.
    """
    started(trained).record_stage(stage)
    campaign = started(trained, "global_batch_size=128")
    assert (
        campaign.working_folder == locate_staged_campaign(trained, "resnet50")
        and campaign.read_training_nonce() is None
        and campaign.find_own_results() == []
    )


def test_a_set_of_which_the_state_alone_is_left_is_an_earlier_campaigns(tmp_path: Path) -> None:
    """Nothing stands there that would have to stay."""
    keep(tmp_path, endings={"0": "reached"})
    started(tmp_path).record_stage(CampaignStage.FINISHED)
    campaign = started(tmp_path, "global_batch_size=128")
    assert (
        campaign.working_folder == tmp_path
        and campaign.state.earlier == (NONCE,)
        and campaign.read_training_nonce() is None
    )


def test_a_missed_target_begins_anew_even_with_the_same_request(trained: Path) -> None:
    """The same seed was drawn at random: another may reach it."""
    started(trained).record_stage(CampaignStage.MISSED)
    assert started(trained).working_folder == locate_staged_campaign(trained, "resnet50")


def test_a_state_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """And what to do about it."""
    path = locate_campaign_state(tmp_path, "resnet50")
    path.parent.mkdir(parents=True)
    for content in (b"{", b"[]", b'{"asked": 1}', b"\xff"):
        path.write_bytes(content)
        with pytest.raises(RequestError, match="cannot be read .*; remove it to start again"):
            started(tmp_path)


def test_a_state_that_cannot_be_written_is_a_request_error(tmp_path: Path) -> None:
    """A file lies in the state's place: one sentence, not a traceback."""
    (tmp_path / STATE_FOLDER).write_text("a file")
    with pytest.raises(RequestError):
        started(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"{}", b"\xff"])
def test_a_training_state_that_cannot_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    """It is the harness's; `podium train` says what is wrong with it."""
    keep(tmp_path)
    assert len(list_training_states(tmp_path, "resnet50")) == 1
    (tmp_path / STATE_FOLDER / "resnet50" / "campaign.json").write_bytes(content)
    assert list_training_states(tmp_path, "resnet50") == []


def test_a_finished_training_that_was_asked_for_alike_is_adopted(trained: Path) -> None:
    """`podium train`, then `podium run`: nobody trains twice."""
    campaign = started(trained)
    assert campaign.read_training_nonce() == NONCE and campaign.is_training_done()


@pytest.mark.parametrize(
    ("identity", "changes"),
    [
        ({"profile": "quick"}, {}),
        ({"setting global_batch_size": 128}, {}),
        ({"data": "/elsewhere"}, {}),
        ({}, {"system": "other"}),
    ],
)
def test_another_training_is_not_adopted(
    results: Path, identity: dict[str, Any], changes: dict[str, Any]
) -> None:
    """It stays where it is, until the campaign's own training moves it aside."""
    keep(results, endings={"0": "reached"}, **identity)
    assert started(results, **changes).read_training_nonce() is None


def test_what_a_request_leaves_open_fits_any_training(results: Path) -> None:
    """Device, precision, threads, system and seed: who names none takes what there is."""
    keep(results, endings={"0": "reached"}, device="cuda:0", precision="bf16", threads=64)
    assert started(results).read_training_nonce() == NONCE


def test_an_unfinished_training_is_adopted_to_be_gone_on_with(results: Path) -> None:
    """Killed in `podium train`; `podium run` goes on from its checkpoint."""
    keep(results, runs=2, endings={"0": "reached"})
    assert started(results, runs=2).read_training_nonce() == NONCE


# ---- whose results ----


def test_results_of_another_nonce_are_not_its_own(trained: Path) -> None:
    """A scenario that was served from an earlier checkpoint is served again."""
    campaign = started(trained)
    assert len(campaign.find_own_results()) == 5
    folder = next(
        result for result in campaign.find_workload_results() if result.scenario is Scenario.SERVER
    ).performance_folders[0]
    put_system(nonce="f" * 32)(folder.parent.parent / "system.json")
    assert {result.scenario for result in campaign.find_own_results()} == {None, *Scenario} - {
        Scenario.SERVER
    }


def test_results_of_another_organisation_are_not_looked_at(trained: Path) -> None:
    """Several may share a results folder."""
    campaign = started(trained)
    assert len(campaign.find_workload_results()) == 5
    assert (
        replace(campaign, options=replace(campaign.options, org="beta")).find_workload_results()
        == []
    )


@pytest.mark.parametrize("content", [None, b"{", b"{}"])
def test_a_run_without_a_record_belongs_to_nobody(trained: Path, content: bytes | None) -> None:
    """It is served again rather than trusted."""
    campaign = started(trained)
    folder = campaign.find_workload_results()[1].accuracy_folder
    (
        (folder / "run.json").unlink()
        if content is None
        else (folder / "run.json").write_bytes(content)
    )
    assert not campaign.is_own_run(folder) and len(campaign.find_own_results()) == 4


def test_a_named_system_has_its_own_results(trained: Path) -> None:
    """Served under another name, they are another system's."""
    campaign = started(trained)
    assert all(
        campaign.is_own_served_result(result) for result in find_results(trained) if result.scenario
    )
    other = replace(campaign, options=replace(campaign.options, system="Host-torch-FP32"))
    assert all(
        other.is_own_served_result(result) for result in find_results(trained) if result.scenario
    ), "names are compared as folders are"
    other = replace(campaign, options=replace(campaign.options, system="tower"))
    assert not any(
        other.is_own_served_result(result) for result in find_results(trained) if result.scenario
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "checkpoint", "fits"),
    [("torch", "own", True), ("onnxruntime", "own", False), ("onnxruntime", "another", True)],
)
def test_an_engine_left_open_is_the_one_that_was_chosen(
    trained: Path, tmp_path: Path, engine: str, checkpoint: str, fits: bool
) -> None:
    """For this checkpoint: what was chosen for another one says nothing."""
    home = tmp_path / "results"
    shutil.copytree(trained, home)
    campaign = started(home)
    serving = {"engine": "auto"}
    campaign = replace(
        campaign,
        state=replace(campaign.state, asked=RequestedOptions(training={}, serving=serving)),
    )
    result = next(each for each in campaign.find_workload_results() if each.scenario)
    record = log_values.read_loadgen_run_record(result.accuracy_folder)
    figures = EngineFigures(latency_ns=1e6, samples_per_second=1e3)
    sha256 = record.system.checkpoint_sha256 if checkpoint == "own" else "0" * 64
    basis = {"checkpoint": sha256, "precision": record.system.precision}
    write_chosen_engine(
        campaign.working_folder,
        campaign.workload,
        ChosenEngine(trials={engine: figures}, basis=basis),
    )
    assert campaign.is_own_run(result.accuracy_folder) is fits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("serving", "scenario", "mode", "fits"),
    [
        ({"engine": "torch"}, Scenario.SERVER, "performance", True),
        ({"engine": "onnx"}, Scenario.SERVER, "performance", False),
        ({"engine": "auto"}, Scenario.SERVER, "performance", True),
        ({"precision": "bf16"}, Scenario.OFFLINE, "accuracy", False),
        ({"batching.max_batch": 64}, Scenario.OFFLINE, "accuracy", False),
        ({"server.target_qps": 9.0}, Scenario.OFFLINE, "performance", True),
        ({"server.target_qps": 9.0}, Scenario.SERVER, "accuracy", True),
        ({"server.target_qps": 9.0}, Scenario.SERVER, "performance", False),
        ({"loadgen.min_queries": 900}, Scenario.SERVER, "accuracy", True),
        ({"loadgen.min_queries": 900}, Scenario.SERVER, "performance", False),
    ],
)
def test_a_run_fits_a_request_as_far_as_the_request_matters_to_it(
    trained: Path, serving: dict[str, Any], scenario: Scenario, mode: str, fits: bool
) -> None:
    """Changing Server's rate serves Server's performance run again, and nothing else."""
    campaign = started(trained)
    campaign = replace(
        campaign,
        state=replace(campaign.state, asked=RequestedOptions(training={}, serving=serving)),
    )
    result = next(
        result for result in campaign.find_workload_results() if result.scenario is scenario
    )
    assert (
        campaign.is_own_run(
            result.accuracy_folder if mode == "accuracy" else result.performance_folders[0]
        )
        is fits
    )


def test_a_training_that_the_judge_refuses_is_not_done(
    trained: Path, objections: list[Finding], objection: Finding
) -> None:
    """Serving it would be in vain."""
    campaign = started(trained)
    assert campaign.is_training_done()
    objections.append(objection)
    assert not campaign.is_training_done()


# ---- what was asked ----


def test_training_and_serving_are_asked_apart(tmp_path: Path) -> None:
    """What serving alone depends on may change after training."""
    found = requested_options.parse_requested_options(
        "resnet50", options(tmp_path, "server.qps_share=0.4", "global_batch_size=128"), 1, 2
    )
    assert found.serving["server.qps_share"] == 0.4 and found.training["global_batch_size"] == 128
    assert (found.training["seed"], found.training["runs"], found.serving["precision"]) == (
        1,
        2,
        "fp32",
    )
    assert not {
        key
        for key in found.training
        if key.startswith((*SCENARIO_BY_PREFIX, "batching.", "engine.", "loadgen."))
    }
    assert json.loads(json.dumps(found.training)) == found.training, "the state is JSON"


def test_spelling_is_no_difference(tmp_path: Path) -> None:
    """A file or `--set`, 1 or 1.0."""
    (tmp_path / "c.toml").write_text("server.qps_share = 1\n")
    by_file = requested_options.parse_requested_options(
        "resnet50", options(tmp_path, config=tmp_path / "c.toml"), None, None
    )
    by_word = requested_options.parse_requested_options(
        "resnet50", options(tmp_path, "server.qps_share=1.0"), None, None
    )
    assert by_file == by_word and by_file.list_differences(by_word) == []


def test_differences_are_told_with_both_values(tmp_path: Path) -> None:
    """In the order of their names."""
    one = requested_options.parse_requested_options("resnet50", options(tmp_path), 1, None)
    two = requested_options.parse_requested_options(
        "resnet50", options(tmp_path, "opt_name=sgd", org="beta"), 2, None
    )
    found = one.list_differences(two)
    assert [key for key, *_ in found] == sorted(key for key, *_ in found) and {
        ("org", "acme", "beta"),
        ("seed", 1, 2),
    } <= set(found)


def test_an_unknown_setting_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The nearest is offered."""
    with pytest.raises(RequestError, match="did you mean 'server.qps_share'"):
        started(tmp_path, "server.qps_shar=1")
    assert not list(tmp_path.iterdir())


def test_the_rounds_rows_are_asked_not_copied(tmp_path: Path) -> None:
    """Every setting of the workload is part of a request, also one that nobody typed."""
    row = registry.load_round().benchmark("resnet50")
    found = requested_options.parse_requested_options("resnet50", options(tmp_path), None, None)
    settled = {*found.training, *found.serving}
    assert {key for key, setting in row.settings.items() if setting.default is not None} <= settled


@pytest.mark.parametrize(
    "content",
    [
        b'{"earlier": "\xff"}',
        b'{"nonce": "\xff"}',
        b"[" * 100_000,
        b'{"asked": ' + b"[" * 100_000,
        b"[]",
        b"",
    ],
)
def test_states_of_any_bytes_are_told_or_left(tmp_path: Path, content: bytes) -> None:
    """The campaign's own is refused with what to do; the harness's is refused by whoever goes on
    with it.
    """
    path = locate_campaign_state(tmp_path, "resnet50")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(RequestError, match="remove it to start again"):
        read_campaign_state(tmp_path, "resnet50")
    keep(tmp_path)
    (tmp_path / STATE_FOLDER / "resnet50" / "campaign.json").write_bytes(content)
    assert list_training_states(tmp_path, "resnet50") == []
