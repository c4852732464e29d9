"""Compiles and records a training's steps before the clock, if its settings ask for that, and says
how long that took.
"""

from collections.abc import Sequence

from harness.training.mllog_writer import MllogWriter
from harness.training.run_context import TrainingContext, TrainingJob
from suite import events
from suite.console.screen import print_progress_note
from suite.workload import PreparedTraining, StepPreparation, Training

PROBLEMS_METADATA = "problems"
"""Metadata of the event: why a setting has no seconds."""


def prepare_training_steps(
    job: TrainingJob, training: Training, log: MllogWriter, fresh: bool
) -> None:
    """Prepare the steps, on all ranks; print what was done, and log it in a new run."""
    done = prepare_and_report_steps(job, training)
    if done and fresh:
        log_preparations(log, done)


def prepare_and_report_steps(job: TrainingContext, training: Training) -> Sequence[StepPreparation]:
    """Prepare the steps, on all ranks; print and return what was done."""
    if not isinstance(training, PreparedTraining):
        return ()
    if job.ranks.leads and (asked := list_asked_settings(job)):
        print_progress_note(f"{job.name}: {' and '.join(asked)}: preparing the steps")
    done = training.prepare_steps()
    for each in done:
        if job.ranks.leads or each.problem:
            print_progress_note(f"{job.name}: {describe_preparation(each)}")
    return done


def list_asked_settings(job: TrainingContext) -> list[str]:
    """Return the settings by which a user asks for prepared steps."""
    return [key for key in events.PREPARING_SETTINGS if job.request.settings.get(key) is True]


def describe_preparation(done: StepPreparation) -> str:
    """Say in one sentence what was prepared, or why the steps run without it."""
    if done.problem:
        return f"{done.setting}: {done.problem}; the steps run as without it"
    return f"{done.setting}: ready after {done.seconds:.1f} s, before the clock"


def log_preparations(log: MllogWriter, done: Sequence[StepPreparation]) -> None:
    """Log the seconds of each setting; null, and the reason, of one that failed."""
    seconds = {each.setting: None if each.problem else round(each.seconds, 3) for each in done}
    problems = {each.setting: each.problem for each in done if each.problem}
    log.log_point(
        events.STEP_PREPARATION, seconds, **({PROBLEMS_METADATA: problems} if problems else {})
    )
