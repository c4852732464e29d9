"""The best run of a search for the peak becomes the Server scenario's result: nothing that was
measured is thrown away.
"""

import shutil
from dataclasses import replace

import click

from harness.serving.attempts import record_attempt
from harness.serving.harness_ceiling import resolve_harness_ceiling
from harness.serving.loadgen.session import move_finished_run
from harness.serving.loadgen.test_settings import LoadGenSchedule
from harness.serving.run_record import find_served_run, store_system_record
from harness.serving.setup import SearchedRun, ServingSetup
from suite.errors import JudgedError
from suite.files.cache import locate_cache_folder
from suite.files.layout import PARTIAL_SUFFIX, RUN_RECORD, SYSTEM_RECORD
from suite.ledger.steps import AttemptKind
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.headline import VALID_RUN, get_rate_unit
from suite.records import locate_system_folder, write_record
from suite.studies.documents import POINT_FILE


def adopt_searched_run(
    serving_setup: ServingSetup, found: SearchedRun, schedule: LoadGenSchedule
) -> None:
    """Copy a run of the search to its place in the results, with what the search proved;
    JudgedError if its record cannot be read.
    """
    target = serving_setup.entry.locate_performance_run(
        serving_setup.request.row.inference_name, schedule.scenario, 1
    )
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    shutil.rmtree(partial, ignore_errors=True)
    with record_attempt(serving_setup, AttemptKind.PERFORMANCE, target) as ledger_attempt:
        own = shutil.ignore_patterns(POINT_FILE, SYSTEM_RECORD)
        shutil.copytree(found.folder, partial, ignore=own)
        served = find_served_run(found.folder)
        if served is None:
            raise JudgedError(f"{found.folder}: no readable {RUN_RECORD}")
        headline = read_detail_log(partial).require_headline(schedule.scenario)
        ceiling = resolve_harness_ceiling(
            locate_cache_folder(),
            schedule.scenario,
            reached_rate=headline.value,
            instances=len(serving_setup.system.placement),
            tokens=schedule.token_latencies,
        )
        store_system_record(locate_system_folder(target), served.system)
        write_record(
            partial / RUN_RECORD,
            replace(served.record, searched=found.search, ceiling=ceiling),
        )
        ledger_attempt.record_completion(partial, VALID_RUN)
        move_finished_run(partial, target)
    click.echo(
        f"{schedule.scenario.label} performance: VALID, {headline.value:,.1f}"
        f" {get_rate_unit(headline.metric)}, the best run of the search"
    )
