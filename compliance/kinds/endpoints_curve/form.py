"""Where the files of a submission of curves lie."""

from compliance.kinds.endpoints.documents.run import CONFIG_FILE
from compliance.kinds.endpoints.recognition import POINT_FILE, POINT_SUMMARY, RESULTS_FOLDER
from compliance.kinds.endpoints_curve.documents.point import SYSTEM_FILE
from compliance.kinds.endpoints_curve.documents.point_records import RECORDS_FOLDER
from compliance.kinds.endpoints_curve.documents.power import POWER_FILE
from compliance.results.submission_forms import CurveForm
from suite import registry


def describe_curve_form(round_name: str) -> CurveForm:
    """Return the form of a round's submissions."""
    return CurveForm(
        round=registry.load_endpoints_round(round_name),
        results_folder=RESULTS_FOLDER,
        point_file=POINT_FILE,
        summary_file=POINT_SUMMARY,
        config_file=CONFIG_FILE,
        system_file=SYSTEM_FILE,
        records_folder=RECORDS_FOLDER,
        power_file=POWER_FILE,
    )
