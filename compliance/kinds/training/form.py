"""Where the files of a submission lie, and how many runs a set has."""

from compliance.kinds.training.round import load_training_round
from compliance.results.submission_forms import TrainingForm


def describe_training_form(round_name: str) -> TrainingForm:
    """Return the form of a round's submissions."""
    round = load_training_round(round_name)
    return TrainingForm(
        benchmarks={
            name: row.runs for name, row in round.benchmarks.items() if not row.reused_name
        },
        initialization_logged=round.rules.initialization_logged,
        system_fields=round.rules.system_fields,
        system_statuses=round.rules.system_statuses,
    )
