"""A look at a system under test that takes a moment, where its speed is not what a test is
about.
"""

from harness.children.process import Abort
from harness.serving.loadgen.probe import ProbeJob, ProbeResult, run_probe_job
from podium_fakes.fake import probe_briefly


def look_briefly(job: ProbeJob, abort: Abort) -> ProbeResult:
    """Look, in this process of its own, for a tenth of a second: also at instances, whose processes
    cannot say so, and at other workloads.
    """
    probe_briefly()
    return run_probe_job(job, abort)
