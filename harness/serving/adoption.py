"""The best run of a search for the peak becomes the Server scenario's result: nothing that was
measured is thrown away.
"""

import shutil
from dataclasses import replace

import click

from harness.serving.attempts import attempted
from harness.serving.harness_ceiling import ceiling_of_host
from harness.serving.loadgen.session import keep
from harness.serving.loadgen.test_settings import Schedule
from harness.serving.run_record import record_in
from harness.serving.setup import Bench, Searched
from harness.serving.staging import VALID
from suite.errors import JudgedError
from suite.files.cache import locate_cache_folder
from suite.files.layout import PARTIAL_SUFFIX, RUN_RECORD
from suite.ledger.steps import AttemptKind
from suite.records import write_record
from suite.studies.rates import RATE_ATTEMPT_FILE


def adopt(bench: Bench, found: Searched, schedule: Schedule) -> None:
    """Copy a run of the search to its place in the results, with what the search proved;
    JudgedError if its record cannot be read.
    """
    target = bench.entry.locate_performance_run(
        bench.request.row.inference_name, schedule.scenario, 1
    )
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    shutil.rmtree(partial, ignore_errors=True)
    with attempted(bench, AttemptKind.PERFORMANCE, target) as tried:
        shutil.copytree(found.folder, partial, ignore=shutil.ignore_patterns(RATE_ATTEMPT_FILE))
        record = record_in(partial)
        if record is None:
            raise JudgedError(f"{found.folder}: no readable {RUN_RECORD}")
        ceiling = ceiling_of_host(
            locate_cache_folder(), schedule.scenario, record.value, len(bench.system.placement)
        )
        above = (
            ceiling is not None
            and record.value > bench.request.round.loadgen.ceiling_share * ceiling
        )
        write_record(
            partial / RUN_RECORD,
            replace(record, searched=found.search, ceiling=ceiling, above_ceiling_share=above),
        )
        tried.served(partial, VALID)
        keep(partial, target)
    click.echo(
        f"{schedule.scenario.label} performance: VALID, {record.value:,.1f} samples/s, the best run"
        " of the search"
    )
