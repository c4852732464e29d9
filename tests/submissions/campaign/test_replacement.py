"""A campaign that is made beside an earlier one: it comes to its place as one, wherever it is
stopped, and never mixed with what stood there.
"""

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from compliance.kinds.podium.results import log_values
from compliance.verdict import Finding
from submissions.campaign import replacement, requested_options
from submissions.campaign.replacement import settle_campaign
from submissions.campaign.state import (
    CampaignStage,
    CampaignState,
    begin_campaign,
    list_training_states,
    locate_campaign_state,
    read_campaign_state,
)
from submissions.result_index import BUNDLES_FOLDER, find_results
from suite.cli import RunOptions
from suite.errors import JudgedError, RequestError
from suite.files.json_files import write_json
from suite.files.layout import STATE_FOLDER, locate_staged_campaign
from suite.process.signals import Interrupted
from suite.terms import Profile

OLD, NEW = "0123456789abcdef" * 2, "fedcba9876543210" * 2

pytestmark = pytest.mark.usefixtures("objections")


def options(results: Path, *assignments: str) -> RunOptions:
    return RunOptions(
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


def campaign(
    results: Path, tree: Callable[..., Path], nonce: str, stage: CampaignStage, **changes: Any
) -> Path:
    """Leave what a campaign leaves when it is over: its tree, its bundle, and the state of both
    halves.
    """
    tree(results, nonce=nonce, **changes)
    for partial in results.rglob("*.partial"):
        partial.unlink()
    (results / BUNDLES_FOLDER).mkdir(exist_ok=True)
    (results / BUNDLES_FOLDER / "resnet50-smoke-host-torch-fp32.tar.zst").write_text(nonce)
    seed = 1 if nonce == OLD else 2
    write_json(
        results / STATE_FOLDER / "resnet50" / "campaign.json",
        {"nonce": nonce, "seed": seed, "runs": 1, "identity": {}, "endings": {"0": "reached"}},
    )
    state = CampaignState(
        asked=requested_options.parse_requested_options("resnet50", options(results), seed, None),
        stage=stage,
        earlier=(),
    )
    write_json(locate_campaign_state(results, "resnet50"), asdict(state))
    return results


@pytest.fixture
def home(tmp_path: Path, make_tree: Callable[..., Path]) -> Path:
    """A finished campaign, and another one that was made beside it."""
    home = campaign(tmp_path / "results", make_tree, OLD, CampaignStage.FINISHED)
    campaign(locate_staged_campaign(home, "resnet50"), make_tree, NEW, CampaignStage.FINISHED)
    return home


def nonces(home: Path) -> tuple[set[Any], set[Any]]:
    """Name the campaigns that the run sets and the runs of a results folder belong to."""
    found = find_results(home)
    runs = [
        folder
        for result in found
        if result.scenario
        for folder in (result.accuracy_folder, *result.performance_folders)
    ]
    logs = [log for result in found if not result.scenario for log in result.training_logs]
    return {log_values.read_training_values(log).stamps["campaign_nonce"] for log in logs}, {
        log_values.read_loadgen_run_record(folder).system.nonce for folder in runs
    }


def whole(home: Path, nonce: str) -> bool:
    """Tell whether a results folder holds one campaign, all of it, and its state."""
    (state,) = list_training_states(home, "resnet50")
    bundle = (home / BUNDLES_FOLDER / "resnet50-smoke-host-torch-fp32.tar.zst").read_text()
    measured = len(list(home.glob("open/acme/measurements/*/*/*/*.json")))
    return (
        len(find_results(home)) == 5
        and nonces(home) == ({nonce}, {nonce})
        and (state.nonce, bundle, measured) == (nonce, nonce, 4)
    )


def test_a_campaign_that_is_over_takes_the_place_of_the_earlier_one(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is lost, and nothing of it is left where it was made."""
    assert whole(home, OLD)
    settle_campaign(home, "resnet50")
    found = read_campaign_state(home, "resnet50")
    assert (
        whole(home, NEW)
        and found
        and found.stage is CampaignStage.FINISHED
        and found.asked.training["seed"] == 2
    )
    kept = home / STATE_FOLDER / "superseded" / "1"
    assert (
        nonces(kept) == ({OLD}, {OLD})
        and len(find_results(kept)) == 5
        and (kept / BUNDLES_FOLDER).is_dir()
        and (kept / STATE_FOLDER / "resnet50" / "campaign.json").is_file()
    )
    assert (
        not locate_staged_campaign(home, "resnet50").exists()
        and capsys.readouterr().out == f"earlier results moved to {kept}\n"
    )
    settle_campaign(home, "resnet50")
    assert whole(home, NEW)


@pytest.mark.slow
@pytest.mark.parametrize("served_twice", [False, True])
def test_a_kill_at_any_moment_mixes_nothing_and_the_next_command_ends_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served_twice: bool
) -> None:
    """Runs never stand without the set that they belong to, nor beside another one; also where the
    set lies among runs of one of two systems.
    """
    if served_twice:
        results = home / "open" / "acme" / "results"
        shutil.copytree(results / "host-torch-fp32", results / "host-zz-fp32")
        (results / "host-torch-bf16" / "resnet").rename(results / "host-torch-fp32" / "resnet")
        made = locate_staged_campaign(home, "resnet50") / "open" / "acme" / "results"
        (made / "host-torch-bf16" / "resnet").rename(made / "host-torch-fp32" / "resnet")
    for moment in count():
        copy = shutil.copytree(home, tmp_path / f"copy-{moment}", copy_function=shutil.copy2)
        calls = count()

        def cut(
            original: Callable[..., Any], calls: Any = calls, moment: int = moment
        ) -> Callable[..., Any]:
            def moving(path: Path, *rest: Any, **named: Any) -> Any:
                if next(calls) == moment:
                    raise KeyboardInterrupt
                return original(path, *rest, **named)

            return moving

        try:
            with monkeypatch.context() as patch:
                for name in ("replace", "rename", "rmdir"):
                    patch.setattr(Path, name, cut(getattr(Path, name)))
                patch.setattr(os, "rmdir", cut(os.rmdir))
                settle_campaign(copy, "resnet50")
        except KeyboardInterrupt:
            sets, runs = nonces(copy)
            assert len(sets) <= 1 and runs <= sets
        else:
            break
        settle_campaign(copy, "resnet50")
        assert whole(copy, NEW) and not locate_staged_campaign(copy, "resnet50").exists()
    assert moment > 20


def test_a_signal_waits_and_a_full_disk_is_one_sentence(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither leaves half of it."""

    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device", "x")

    with (
        monkeypatch.context() as patch,
        pytest.raises(JudgedError, match="^x: No space left on device$"),
    ):
        patch.setattr(replacement, "move_campaign_part", full)
        settle_campaign(home, "resnet50")
    moving = replacement.move_campaign_part

    def disturbed(*given: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        moving(*given)

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(replacement, "move_campaign_part", disturbed)
        settle_campaign(home, "resnet50")
    assert whole(home, NEW)


def test_an_unfinished_campaign_stays_where_it_is(home: Path) -> None:
    """And what was stopped before it had a state goes."""
    made = locate_staged_campaign(home, "resnet50")
    state = read_campaign_state(made, "resnet50")
    assert state
    write_json(
        locate_campaign_state(made, "resnet50"), asdict(replace(state, stage=CampaignStage.RUNNING))
    )
    settle_campaign(home, "resnet50")
    assert whole(home, OLD) and whole(made, NEW)
    locate_campaign_state(made, "resnet50").unlink()
    settle_campaign(home, "resnet50")
    assert whole(home, OLD) and not made.exists()


@pytest.mark.parametrize("refused", [False, True])
def test_one_that_missed_its_target_is_kept_aside_where_a_good_one_stands(
    home: Path,
    make_tree: Callable[..., Path],
    objections: list[Finding],
    objection: Finding,
    refused: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where the judge accepts nothing of what stands there, the later miss says more."""
    made = locate_staged_campaign(home, "resnet50")
    shutil.rmtree(made)
    campaign(made, make_tree, NEW, CampaignStage.MISSED, scenarios=())
    objections.extend([objection] * refused)
    settle_campaign(home, "resnet50")
    assert not made.exists()
    if refused:
        assert nonces(home) == ({NEW}, set()) and len(find_results(home)) == 1
    else:
        kept = Path(capsys.readouterr().out.split("the new campaign is stored in ")[1].strip())
        assert whole(home, OLD) and nonces(kept) == ({NEW}, set())


def test_one_that_missed_its_target_and_left_no_result_takes_nothing_away(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It moved the state of the campaign that stands aside: the next `podium run` would have
    trained anew.
    """
    made = locate_staged_campaign(home, "resnet50")
    state = read_campaign_state(made, "resnet50")
    assert state
    for part in ("open", "checkpoints", BUNDLES_FOLDER):
        shutil.rmtree(made / part, ignore_errors=True)
    write_json(
        locate_campaign_state(made, "resnet50"), asdict(replace(state, stage=CampaignStage.MISSED))
    )
    before = locate_campaign_state(home, "resnet50").read_bytes()
    settle_campaign(home, "resnet50")
    told = capsys.readouterr().out
    kept = Path(told.split("the new campaign is stored in ")[1].strip())
    assert "left no result, and the earlier one stays in place" in told
    assert (
        whole(home, OLD)
        and locate_campaign_state(home, "resnet50").read_bytes() == before
        and not made.exists()
        and locate_campaign_state(kept, "resnet50").is_file()
    )


def test_runs_of_the_set_that_goes_go_with_it_and_others_stay(
    home: Path, make_tree: Callable[..., Path], tmp_path: Path
) -> None:
    """Another engine served the earlier set: its runs would be of no set at all. Another
    organisation's campaign is none of this.
    """
    other = make_tree(tmp_path / "other", nonce=OLD)
    results = home / "open" / "acme" / "results"
    shutil.copytree(
        other / "open" / "acme" / "results" / "host-torch-fp32", results / "host-onnxruntime-fp32"
    )
    make_tree(tmp_path / "beta", org="beta", nonce=OLD)
    shutil.copytree(tmp_path / "beta" / "open" / "beta", home / "open" / "beta")
    settle_campaign(home, "resnet50")
    assert not list((results / "host-onnxruntime-fp32").rglob("run.json"))
    assert {result.org for result in find_results(home)} == {"acme", "beta"} and len(
        find_results(home)
    ) == 10


def test_what_came_to_the_place_while_it_was_under_way_is_kept_aside(
    home: Path, monkeypatch: pytest.MonkeyPatch, make_tree: Callable[..., Path]
) -> None:
    """Somebody served again after a kill, before the next `podium run`."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            replacement,
            "list_campaign_parts",
            lambda *given: (_ for _ in ()).throw(KeyboardInterrupt()),
        )
        settle_campaign(home, "resnet50")
    assert find_results(home) == []
    shutil.rmtree(home / "open")
    shutil.rmtree(home / "checkpoints")
    (home / STATE_FOLDER / "resnet50" / "campaign.json").unlink(missing_ok=True)
    shutil.copytree(make_tree(home.parent / "third", nonce="3" * 32) / "open", home / "open")
    settle_campaign(home, "resnet50")
    assert nonces(home) == ({NEW}, {NEW})
    assert "3" * 32 in {
        nonce
        for folder in (home / STATE_FOLDER / "superseded").iterdir()
        for nonce in nonces(folder)[1]
    }


def test_a_request_that_is_refused_leaves_nothing_beside(home: Path) -> None:
    """The earlier campaign's state is as it was."""
    shutil.rmtree(locate_staged_campaign(home, "resnet50"))
    before = locate_campaign_state(home, "resnet50").read_bytes()
    found = begin_campaign("resnet50", options(home), 3, None)
    assert (
        found.working_folder == locate_staged_campaign(home, "resnet50")
        and found.read_training_nonce() is None
        and found.find_own_results() == []
    )
    found.restore_earlier_state(read_campaign_state(home, "resnet50"))
    assert (
        not found.working_folder.exists()
        and locate_campaign_state(home, "resnet50").read_bytes() == before
    )


def test_the_same_request_goes_on_beside_and_another_is_refused(home: Path) -> None:
    """As for a first campaign: half of it would be of one request, half of another."""
    shutil.rmtree(locate_staged_campaign(home, "resnet50"))
    first = begin_campaign("resnet50", options(home), 3, None)
    assert begin_campaign("resnet50", options(home), 3, None) == first
    with pytest.raises(
        RequestError,
        match=(
            r"seed 3, not 4.*choose another --results, or remove"
            r" .*/campaign/\.podium/run-resnet50\.json"
        ),
    ):
        begin_campaign("resnet50", options(home), 4, None)
    locate_campaign_state(first.working_folder, "resnet50").unlink()
    settle_campaign(home, "resnet50")
    assert begin_campaign("resnet50", options(home), 4, None).state.asked.training["seed"] == 4


@pytest.mark.parametrize(
    "standing", [["../../keep.txt"], ["/etc/passwd"], ["open/../../keep.txt"], 7]
)
def test_a_record_of_the_way_that_names_what_lies_elsewhere_moves_nothing_there(
    home: Path, standing: object
) -> None:
    """Bytes of others: it is taken as if there were none."""
    keep = home.parent / "keep.txt"
    keep.write_text("mine")
    write_json(
        locate_staged_campaign(home, "resnet50") / replacement.CAMPAIGN_MOVE_FILE,
        {"standing": standing, "displaced": False},
    )
    settle_campaign(home, "resnet50")
    assert keep.read_text() == "mine" and whole(home, NEW)
