"""Where the files of a submission lie.

Source: mlcommons/inference, submission_checker/constants.py: MEASUREMENTS_PATH, COMPLIANCE_PATH,
SRC_PATH.
"""

from compliance.kinds.inference_mllog.round import load_inference_mllog_round
from compliance.results.submission_forms import InferenceForm


def describe_mllog_form(round_name: str) -> InferenceForm:
    """Return the form of a round's submissions."""
    round = load_inference_mllog_round(round_name)
    return InferenceForm(
        find_benchmark=round.find_benchmark,
        together=round.rules.together,
        tests_folder="compliance",
        code_folder="src" if round.rules.together else "code",
        measurement_files=round.rules.measurement_files,
    )
