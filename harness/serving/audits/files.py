"""The files of a compliance test: audit.json, and those that MLCommons' submission checker looks
for.
"""

import shutil
from pathlib import Path

from suite.audits.names import ANSWER_TESTS
from suite.audits.outcome import AuditOutcome
from suite.audits.rules import LoadGenSettings, format_audit_config
from suite.files.layout import ACCURACY_LOG, AUDIT_CONFIG, AUDIT_RECORD, sync_to_disk
from suite.records import AuditRecord, write_record
from suite.workload import Mode


def write_audit_files(
    folder: Path, record: AuditRecord, loadgen_settings: LoadGenSettings, outcome: AuditOutcome
) -> None:
    """Write a test's files beside its runs, which LoadGen was given these settings for, and sync
    all of them.
    """
    write_record(folder / AUDIT_RECORD, record)
    (folder / AUDIT_CONFIG).write_text(format_audit_config(loadgen_settings))
    for name, text in outcome.format_verify_files().items():
        (folder / name).write_text(text)
    if outcome.test in ANSWER_TESTS:
        (folder / Mode.ACCURACY).mkdir()
        shutil.copyfile(
            folder / Mode.PERFORMANCE / "run_1" / ACCURACY_LOG,
            folder / Mode.ACCURACY / ACCURACY_LOG,
        )
    for path in (*folder.rglob("*"), folder):
        sync_to_disk(path)
