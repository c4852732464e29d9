"""What to do after a campaign that ended without a bundle: the last words of `podium run`."""

from typing import Final

from submissions import compliance_check
from submissions.campaign.state import Campaign, CampaignStage, read_campaign_state

RESUME_NOTE: Final = "finished steps are kept; run the same command to resume"
SERVING_NOTE: Final = (
    "the training is kept; the same command serves again what is named above, also with another"
    " --engine, --precision or --set of serving"
)
MISSED_NOTE: Final = (
    "the same command trains anew, with another seed if --seed is not given; this training is not"
    " resumed"
)
REJECTED_NOTE: Final = (
    "the judge refuses the finished training, so that it is not resumed: remove the cause named"
    " above; the same command then trains anew"
)
DOCUMENTS_NOTE: Final = (
    "the judge refuses a document beside the results: mend the file named above; the same command"
    " then goes on"
)
AUDIT_NOTE: Final = (
    "the bundle is sealed and its results keep their verdict; the same command runs the failed"
    " tests again"
)


def describe_next_step(campaign: Campaign) -> str:
    """Say what the same command does after the judge or a step ended a campaign; a rejected
    training is recorded, so that the next campaign begins anew.
    """
    state = read_campaign_state(campaign.working_folder, campaign.workload)
    if state is not None and state.stage is CampaignStage.MISSED:
        return MISSED_NOTE
    training = campaign.read_training_state()
    if training is None or training.is_unfinished:
        return RESUME_NOTE
    if campaign.is_training_done():
        return SERVING_NOTE
    sets = [result for result in campaign.find_own_results() if result.scenario is None]
    if any(map(compliance_check.is_valid_alone, sets)):
        return DOCUMENTS_NOTE
    campaign.record_stage(CampaignStage.MISSED)
    return REJECTED_NOTE
