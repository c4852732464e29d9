"""Recognise results of Inference v0.5 and v0.7 by LoadGen's seeds, or by the day of the run."""

import re
from typing import Final

from compliance.recognition.loadgen_seeds import read_loadgen_head, read_seed_evidence
from compliance.recognition.round_evidence import FileHead, RoundEvidence
from suite.files.layout import SUMMARY_LOG

TEST_MONTH_PATTERN: Final = re.compile(rb"Date \+ time of test: (\d{4}-\d\d)")
FIRST_V07_TEST_MONTH: Final = "2020-04"
"""LoadGen tests dated this month or later were made for v0.7, where a run may have other seeds than
its round's. v0.5's results date from 2019.
"""


def read_text_evidence(file: FileHead) -> RoundEvidence | None:
    """Read LoadGen's seed; a text detail log without a round's own seed belongs to v0.5 or v0.7 by
    its date, and a summary gives no evidence.
    """
    if file.path.suffix == ".json" or file.record.startswith(b":::ML"):
        return None
    if found := read_seed_evidence(file, "inference-text"):
        return found
    head = read_loadgen_head(file.record)
    if head is None or head.round is not None or file.path.name == SUMMARY_LOG:
        return None
    tested = TEST_MONTH_PATTERN.search(file.record)
    later = tested is not None and tested[1].decode() >= FIRST_V07_TEST_MONTH
    name = "inference-v0.5"
    if later:
        name = "inference-v0.7"
    return RoundEvidence(name, head.indicated_by, sure=False)
