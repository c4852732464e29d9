"""After run_stop: whatever interrupts, the log is finished once, the weights are scored once, and
both name each other.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from podium_fakes.drive import events, log_path, options, partial
from safetensors.numpy import save_file

from harness.distributed import RankFailure, RankLost, SingleRank
from harness.request import RunRequest, resolve_request
from harness.training import export as sealing
from harness.training.export import (
    StoppedRun,
    build_checkpoint_record,
    export_weights,
    move_exported_weights,
    read_stopped_run,
    score_exported_weights,
    seal_training_run,
)
from harness.training.loop import RunEnding, TrainingOutcome
from harness.training.mllog_writer import MllogWriter
from harness.training.request import TrainingRequest
from harness.training.run_context import TrainingJob
from harness.training.state.set_state import TrainingSetState, get_run_state_folder
from harness.training.timed_run import export_trained_weights
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import (
    CHECKPOINT_RECORD,
    compute_file_sha256,
    compute_folder_sha256,
    locate_checkpoint_folder,
)
from suite.ledger.steps import StepKind
from suite.records import CheckpointRecord
from suite.terms import Division, Precision, Profile
from suite.workload import Scores

OUTCOME = TrainingOutcome(ending=RunEnding.REACHED, scores={"top1": 0.8}, minutes=1.0, epoch=3)
CAMPAIGN = TrainingSetState(
    nonce="ab" * 16,
    seed=40,
    runs=3,
    logs="open/tests/results/testbed/resnet",
    identity={},
    endings={},
)


class Weights:
    """A training that exports one file."""

    def __init__(self, weight: float = 0.8) -> None:
        self.weight = weight

    def export(self, folder: Path) -> None:
        """Write it."""
        (folder / "model.json").write_text(json.dumps({"workload": "fake", "weight": self.weight}))


@pytest.fixture
def request_here(tmp_path: Path) -> RunRequest:
    return resolve_request(options(tmp_path), "fake")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return get_run_state_folder(tmp_path, "fake", 0)


@pytest.fixture
def job(request_here: RunRequest) -> TrainingJob:
    """A job of one rank."""
    entry = request_here.build_entry(Division.OPEN, "fake", Precision.FP32)
    return TrainingJob(
        training=TrainingRequest(
            request=request_here,
            row=request_here.row.training[Profile.SMOKE],
            hyper={},
            entry=entry,
            system={},
        ),
        working_entry=entry,
        threads=1,
        ranks=SingleRank(),
        watch=None,
        signals=None,  # type: ignore[arg-type]
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return log_path(tmp_path)


@pytest.fixture
def stopped(state: Path, path: Path) -> StoppedRun:
    """A run whose clock has stopped, with a log that ends with run_stop."""
    with MllogWriter(path) as log:
        log.log_stop("run_stop", status="success")
        return export_weights(Weights(), OUTCOME, log, state)  # type: ignore[arg-type]


def keys(path: Path) -> list[str]:
    return [event["key"] for event in events(path)]


def test_what_is_exported_is_noted_with_its_hash(stopped: StoppedRun, state: Path, path: Path):
    """A second process can go on from the note alone."""
    assert read_stopped_run(state) == stopped and stopped.sha256 == compute_folder_sha256(
        state / "exported"
    )
    assert stopped.log_offset == partial(path).stat().st_size and stopped.outcome == OUTCOME
    assert read_stopped_run(state.with_name("run_1")) is None


def test_an_export_begins_with_an_empty_folder(stopped: StoppedRun, state: Path, tmp_path: Path):
    """What an interrupted export left would change the hash."""
    (state / "exported" / "left-over").write_text("x")
    with MllogWriter(tmp_path / "other") as log:
        again = export_weights(Weights(), OUTCOME, log, state)  # type: ignore[arg-type]
    assert again.sha256 == stopped.sha256 and not (state / "exported" / "left-over").exists()


class SafetensorsWeights(Weights):
    """Weights as workloads write them."""

    def export(self, folder: Path) -> None:
        """Write them, as safetensors may leave them."""
        save_file({"weight": np.zeros(2)}, folder / "model.safetensors")
        (folder / "model.safetensors").chmod(0o600)  # newer versions; older ones heed the umask
        super().export(folder)


def test_others_may_read_the_weights_as_far_as_the_umask_allows(state: Path, path: Path):
    """Whoever judged another user's results was told that the weights had been changed."""
    before = os.umask(0o027)
    try:
        with MllogWriter(path) as log:
            export_weights(SafetensorsWeights(), OUTCOME, log, state)  # type: ignore[arg-type]
    finally:
        os.umask(before)
    modes = {each.name: each.stat().st_mode & 0o777 for each in (state / "exported").iterdir()}
    assert modes == {"model.safetensors": 0o640, "model.json": 0o640}


def test_sealing_finishes_the_log_and_moves_the_weights(
    job: TrainingJob, stopped: StoppedRun, state: Path, path: Path, tmp_path: Path
):
    """The last two lines name the checkpoint and its reference accuracy; the ledger names the log
    and its telemetry.
    """
    sampled = job.get_telemetry_path(0)
    sampled.write_text("readings\n")
    assert seal_training_run(job, CAMPAIGN, 0, stopped) == stopped.sha256
    assert keys(path) == ["run_stop", "checkpoint_sha256", "reference_accuracy"]
    last = events(path)[-1]
    assert (
        last["value"] == {"top1": 0.8} and last["metadata"]["checkpoint_sha256"] == stopped.sha256
    )
    folder = locate_checkpoint_folder(tmp_path, "fake", stopped.sha256)
    assert compute_folder_sha256(folder) == stopped.sha256 and not (state / "exported").exists()
    trained, exported = job.ledger.read_steps()
    assert (trained.step, trained.files) == (
        StepKind.TRAINED,
        {
            each.relative_to(tmp_path).as_posix(): compute_file_sha256(each)
            for each in (path, sampled)
        },
    )
    assert exported.step is StepKind.EXPORTED and list(exported.files.values()) == [
        compute_file_sha256(folder / CHECKPOINT_RECORD)
    ]


def test_sealing_twice_scores_once(
    job: TrainingJob, stopped: StoppedRun, path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The log is there: whatever came after it is done, or is done now."""
    seal_training_run(job, CAMPAIGN, 0, stopped)
    text = path.read_bytes()
    monkeypatch.setattr(sealing, "score_reference_accuracy", lambda *_: pytest.fail("scored again"))
    assert (
        seal_training_run(job, CAMPAIGN, 0, stopped) == stopped.sha256 and path.read_bytes() == text
    )


def test_an_interruption_between_log_and_weights_is_mended(
    job: TrainingJob,
    stopped: StoppedRun,
    state: Path,
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """The log names a checkpoint that still lies in the state's folder."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            sealing, "move_exported_weights", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        seal_training_run(job, CAMPAIGN, 0, stopped)
    assert path.exists() and (state / "exported" / CHECKPOINT_RECORD).exists()
    seal_training_run(job, CAMPAIGN, 0, stopped)
    assert (
        locate_checkpoint_folder(tmp_path, "fake", stopped.sha256).is_dir()
        and keys(path).count("checkpoint_sha256") == 1
    )


def test_lines_of_an_interrupted_sealing_do_not_stand_twice(
    job: TrainingJob, stopped: StoppedRun, path: Path
):
    """They are cut off at the offset that was noted when the clock stopped. Without a file of
    telemetry the log says that it is lost.
    """
    with MllogWriter(path) as log:
        log.log_point("checkpoint_sha256", "half-done")
    seal_training_run(job, CAMPAIGN, 0, stopped)
    assert (
        keys(path) == ["run_stop", "checkpoint_sha256", "reference_accuracy", "telemetry_lost"]
        and "half-done" not in path.read_text()
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_reference_that_is_no_number_is_refused(
    job: TrainingJob,
    stopped: StoppedRun,
    state: Path,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    value: float,
):
    """Every served result would hold 99 % of NaN."""
    monkeypatch.setattr(sealing, "score_reference_accuracy", lambda *_: {"top1": value})
    with pytest.raises(JudgedError, match="reference accuracy is not a number"):
        seal_training_run(job, CAMPAIGN, 0, stopped)
    assert not path.exists() and (state / "exported").is_dir(), "it can be scored again"


def failing(error: Exception) -> Callable[..., Scores]:
    def score(*_: Any) -> Scores:
        raise error

    return score


def test_a_failure_of_the_inference_half_is_told_with_its_traceback(
    request_here: RunRequest, state: Path, monkeypatch: pytest.MonkeyPatch
):
    """Hours of training stand behind it: whoever mends it finds the whole story."""
    monkeypatch.setattr(
        sealing, "score_reference_accuracy", failing(ZeroDivisionError("no samples"))
    )
    with pytest.raises(
        JudgedError, match="could not be scored: ZeroDivisionError: no samples; traceback in"
    ) as caught:
        score_exported_weights(request_here, state / "exported", 1)
    assert "no samples" in Path(str(caught.value).rsplit("traceback in ", 1)[1]).read_text()


@pytest.mark.parametrize("error", [MissingError("no engine"), JudgedError("data broken")])
def test_a_plain_sentence_stays_plain(
    request_here: RunRequest, state: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    """With its own exit code."""
    monkeypatch.setattr(sealing, "score_reference_accuracy", failing(error))
    with pytest.raises(type(error), match=f"^{error}$"):
        score_exported_weights(request_here, state / "exported", 1)


@pytest.mark.parametrize(
    ("ending", "reached"), [(RunEnding.REACHED, True), (RunEnding.MISSED, False)]
)
def test_the_record_tells_how_it_ended(request_here: RunRequest, ending: RunEnding, reached: bool):
    """`podium infer` takes only what reached its target; each run of a set has its own seed and
    log.
    """
    outcome = TrainingOutcome(ending=ending, scores={"top1": 0.5}, minutes=1.0, epoch=3)
    record = build_checkpoint_record(request_here, CAMPAIGN, 2, "cd" * 32, outcome, {"top1": 0.49})
    assert (
        record.target_reached is reached
        and record.scores == {"top1": 0.5}
        and record.reference_accuracy == {"top1": 0.49}
    )
    assert (record.seed, record.run_index, record.training_log) == (
        42,
        2,
        "open/tests/results/testbed/resnet/result_2.txt",
    )
    assert record.settings == request_here.settings and record.nonce == CAMPAIGN.nonce


def test_the_same_weights_again_bring_a_new_record_only(request_here: RunRequest, tmp_path: Path):
    """Two runs of one seed: the folder is named by the hash, and the record is the newer one's."""
    for index in (0, 1):
        exported = tmp_path / f"exported-{index}"
        exported.mkdir()
        Weights().export(exported)
        record = build_checkpoint_record(
            request_here, CAMPAIGN, index, compute_folder_sha256(exported), OUTCOME, {"top1": 0.8}
        )
        (exported / CHECKPOINT_RECORD).write_bytes(msgspec.json.encode(record))
        move_exported_weights(exported, tmp_path, "fake")
        assert not exported.exists()
    (folder,) = (tmp_path / "checkpoints" / "fake").iterdir()
    found = msgspec.json.decode((folder / CHECKPOINT_RECORD).read_bytes(), type=CheckpointRecord)
    assert found.run_index == 1 and compute_folder_sha256(folder) == found.sha256 == folder.name


@pytest.mark.parametrize("content", [b'{"sha256": "\xff"}', b"[" * 100_000, b"[]", b""])
def test_a_note_of_any_bytes_is_told(tmp_path: Path, content: bytes):
    """stopped.json, and the record beside weights that wait for their place."""
    for path, call in (
        (tmp_path / "stopped.json", lambda: read_stopped_run(tmp_path)),
        (tmp_path / CHECKPOINT_RECORD, lambda: move_exported_weights(tmp_path, tmp_path, "fake")),
    ):
        path.write_bytes(content)
        with pytest.raises(RequestError, match="without --resume"):
            call()


class DividedWeights(Weights):
    """A training whose ranks have to gather what rank 0 exports."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.did, self.broken = list[str](), broken

    def gather_weights(self) -> None:
        self.did.append("gathered")
        if self.broken:
            raise RuntimeError("gloo: Connection closed by peer")

    def export(self, folder: Path) -> None:
        self.did.append("exported")
        super().export(folder)


class OneOfTwo(SingleRank):
    """A rank whose peer is gone, if anything fails."""

    def __init__(self, leads: bool) -> None:
        super().__init__()
        self.leads = leads

    def find_cause(self, error: BaseException) -> RankFailure | None:
        return RankFailure(sentence=f"another rank is gone ({error})", lost=True)


def export_as_rank(folder: Path, training: DividedWeights, *, leads: bool) -> None:
    job: Any = SimpleNamespace(
        ranks=OneOfTwo(leads), get_state_folder=lambda _: folder, name="fake"
    )
    log: Any = SimpleNamespace(offset=5)
    export_trained_weights(job, 0, cast(Any, training), OUTCOME, log)


def test_divided_weights_are_gathered_by_all_ranks_and_exported_by_one(tmp_path: Path) -> None:
    """A rank that does not gather leaves the others waiting."""
    first, second = DividedWeights(), DividedWeights()
    export_as_rank(tmp_path / "first", first, leads=True)
    export_as_rank(tmp_path / "second", second, leads=False)
    assert first.did == ["gathered", "exported"] and second.did == ["gathered"]
    assert read_stopped_run(tmp_path / "first") is not None
    assert read_stopped_run(tmp_path / "second") is None


def test_a_rank_lost_while_weights_are_gathered_leaves_a_run_that_resumes(tmp_path: Path) -> None:
    """Nothing is wrong with the run: it was called one whose weights could not be saved."""
    with pytest.raises(RankLost, match="another rank is gone"):
        export_as_rank(tmp_path, DividedWeights(broken=True), leads=True)
    assert read_stopped_run(tmp_path) is None
