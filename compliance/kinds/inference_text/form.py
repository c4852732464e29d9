"""Where the files of a submission lie."""

from functools import partial

from compliance.kinds.inference_text.round import load_inference_text_round
from compliance.results.submission_forms import InferenceForm


def describe_text_form(round_name: str) -> InferenceForm:
    """Return the form of a round's submissions."""
    round = load_inference_text_round(round_name)
    return InferenceForm(
        find_benchmark=partial(round.find_benchmark, division="closed"),
        together=False,
        tests_folder=round.filing.tests_folder,
        code_folder="code",
        measurement_files=round.filing.measurement_files,
    )
