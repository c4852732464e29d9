"""`podium run`: runs train, infer, check and pack as separate commands; finished steps are
skipped.
"""

from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import click

from compliance.results.indexed_result import IndexedResult
from submissions import attempts, compliance_check
from submissions.campaign import audits, requested_options
from submissions.campaign.next_step import AUDIT_NOTE, RESUME_NOTE, describe_next_step
from submissions.campaign.replacement import settle_campaign
from submissions.campaign.state import Campaign, CampaignStage, begin_campaign, read_campaign_state
from submissions.result_index import BUNDLES_FOLDER, open_results
from suite import registry
from suite.cli import RunOptions
from suite.console.screen import get_output_level, print_progress_note
from suite.errors import JudgedError, MissingError, PodiumError, RequestError, TemporaryError
from suite.ledger.steps import find_challenge_fault
from suite.loadgen.detail_log import is_logged_valid
from suite.loadgen.scenario import Scenario
from suite.process.lock import lock_results_folder
from suite.process.signals import Interrupted, raise_signals_in_block
from suite.terms import Profile

"""LoadGen's verdict on a performance run that counts."""
METERING_FIELDS: Final = ("power", "meter")
"""Option fields that `podium audit` does not have: runs of compliance tests are not metered."""


def run_campaigns(
    name: str,
    options: RunOptions,
    *,
    seed: int | None,
    runs: int | None,
    serving_runs: int | None = None,
    challenge: str | None = None,
    audit: bool = False,
    peak: bool = False,
) -> list[Path]:
    """Run the campaign for one workload or for all, and return their bundles; a failed one does not
    stop the others. `serving_runs`: performance runs, if not as many as `runs`.

    Raises JudgedError at the end if a campaign missed its target, MissingError if this machine
    lacks something that one needs, RequestError for an invalid challenge.
    """
    if challenge is not None and (problem := find_challenge_fault(challenge)):
        raise RequestError(f"--challenge: {problem}")
    if name == "all":
        names = list(registry.map_entry_points(registry.WORKLOAD_GROUP))
    else:
        names = [name]
    bundles: list[Path] = []
    failures: list[PodiumError] = []
    for each in names:
        try:
            with raise_signals_in_block() as signals:
                # validated before a results folder exists: a rejected request writes nothing
                registry.load_workload(each)
                requested_options.parse_requested_options(each, options, seed, runs, challenge)
                with lock_results_folder(options.results):
                    bundle, failed_audits = run_single_campaign(
                        each, options, seed, runs, serving_runs, challenge, audit=audit, peak=peak
                    )
                bundles.append(bundle)
                if failed_audits:
                    failures.append(JudgedError(f"{'; '.join(failed_audits)}; {AUDIT_NOTE}"))
        except Interrupted as error:
            raise build_interruption_error(each, error) from error
        except (JudgedError, MissingError) as error:
            failures.append(error)
            # it stopped for its own reason, and no other campaign is started
            if signals.received is not None:
                break
    if bundles:
        print_campaign_summary(bundles)
    if failures:
        sentences = "\n  ".join(map(str, failures))
        raise type(failures[0])(sentences)
    return bundles


def run_single_campaign(
    name: str,
    options: RunOptions,
    seed: int | None,
    runs: int | None,
    serving_runs: int | None = None,
    challenge: str | None = None,
    *,
    audit: bool = False,
    peak: bool = False,
) -> tuple[Path, list[str]]:
    """Begin or resume a campaign, and move it into place when complete; return its bundle, and what
    is wrong with its audit. A campaign rejected before its first step leaves no state.
    """
    results_folder = options.results.absolute()
    settle_campaign(results_folder, name)
    earlier_state = read_campaign_state(results_folder, name)
    campaign = begin_campaign(name, options, seed, runs, challenge, serving_runs)
    try:
        bundle, failed_audits = run_campaign_steps(campaign, audit=audit, peak=peak)
    except RequestError:
        if campaign.read_training_state() is None:
            campaign.restore_earlier_state(earlier_state)
        raise
    except MissingError as error:
        if campaign.read_training_state() is None:
            campaign.restore_earlier_state(earlier_state)
        raise MissingError(f"{error}; {RESUME_NOTE}") from error
    except JudgedError as error:
        note = describe_next_step(campaign)
        if settle_campaign(results_folder, name) and campaign.working_folder != results_folder:
            print_campaign_step(
                campaign,
                f"it replaced the earlier campaign; what is named in {campaign.working_folder}"
                f" is now in {results_folder}",
            )
        raise JudgedError(f"{error}; {note}") from error
    settle_campaign(results_folder, name)
    return results_folder / bundle.relative_to(campaign.working_folder), failed_audits


def build_interruption_error(name: str, error: Interrupted) -> Interrupted:
    """Return the error for a campaign that a signal ended, with the command that resumes the
    campaign: a step's own error names only that step's command.
    """
    if isinstance(error.__cause__, (Interrupted, TemporaryError)):
        reported_error = error.__cause__
    else:
        reported_error = error
    return type(error)(f"{name}: {reported_error}; {RESUME_NOTE}")


def run_campaign_steps(
    campaign: Campaign, *, audit: bool = False, peak: bool = False
) -> tuple[Path, list[str]]:
    """Run the remaining steps, including compliance tests and the search for Server's rate if
    requested; return the bundle, and what is wrong with the audit.
    """
    if campaign.working_folder != campaign.destination_folder:
        print_campaign_step(
            campaign,
            f"results in {campaign.destination_folder} stay until this campaign is complete; it"
            f" runs in {campaign.working_folder}",
        )
    run_training_step(campaign)
    run_serving_step(campaign, peak)
    if audit:
        failed_audits = run_audit_step(campaign)
    else:
        failed_audits = []
    results = campaign.find_own_results()
    if not results:
        raise JudgedError(
            f"{campaign.workload}: nothing in {campaign.working_folder} belongs to this campaign,"
            " although every step succeeded"
        )
    print_campaign_step(campaign, "check")
    run_podium_command(
        campaign,
        "check",
        *(str(folder) for folder in list_outermost_folders({result.folder for result in results})),
    )
    attempts.record_check_step(campaign.destination_folder, campaign.workload, results)
    print_campaign_step(campaign, "pack")
    bundle = run_pack_step(campaign, results)
    attempts.record_pack_step(
        campaign.destination_folder,
        campaign.workload,
        results,
        bundle.relative_to(campaign.working_folder).as_posix(),
        bundle,
    )
    campaign.record_stage(CampaignStage.FINISHED)
    return bundle, failed_audits


def list_outermost_folders(folders: set[Path]) -> list[Path]:
    """Drop folders that are inside others: a run set may share a folder with its workload's
    scenarios.
    """
    return sorted(folder for folder in folders if not folders & set(folder.parents))


def run_training_step(campaign: Campaign) -> None:
    """Train, or resume training; JudgedError if the target was missed, after which the next
    campaign starts over.
    """
    if campaign.is_training_done():
        print_campaign_step(campaign, "train: already finished")
        return
    found = campaign.read_training_state()
    sets = [result for result in campaign.find_own_results() if result.scenario is None]
    try:
        if found and not found.is_unfinished and sets:
            print_campaign_step(campaign, "train: finished, but rejected by podium check")
            places = [str(result.organisation_folder or result.folder) for result in sets]
            run_podium_command(campaign, "check", *dict.fromkeys(places))
        print_campaign_step(campaign, "train")
        run_podium_command(
            campaign,
            "train",
            campaign.workload,
            *format_common_arguments(campaign.options),
            *build_training_arguments(campaign, resumed=bool(found and found.is_unfinished)),
        )
    except JudgedError:
        if not any(map(compliance_check.is_valid_alone, sets)):
            campaign.record_stage(CampaignStage.MISSED)
        raise


def build_training_arguments(campaign: Campaign, *, resumed: bool) -> list[str]:
    """Format the options that apply to training only."""
    command_words = ["--resume"] if resumed else []
    if campaign.seed is not None:
        command_words += ["--seed", str(campaign.seed)]
    if campaign.challenge is not None:
        command_words += ["--challenge", campaign.challenge]
    return command_words + ([] if campaign.runs is None else ["--runs", str(campaign.runs)])


def run_serving_step(campaign: Campaign, peak: bool = False) -> None:
    """Serve the unfinished scenarios: together if none has begun, else one by one with the runs
    that each lacks.
    """
    row = registry.load_round().benchmark(campaign.workload).inference.get(campaign.options.profile)
    finished = {
        result.scenario
        for result in campaign.find_own_results()
        if result.scenario
        and has_enough_runs(campaign, result)
        and compliance_check.is_valid_result(result)
    }
    accurate = {
        result.scenario
        for result in campaign.find_workload_results()
        if result.scenario and is_only_performance_missing(campaign, result)
    }
    searching = ["--peak"] if peak else []
    required = row.scenarios if row else ()
    missing = [scenario for scenario in required if scenario not in finished]
    if not missing:
        print_campaign_step(campaign, "infer: already finished")
    elif set(missing) == set(Scenario) and not accurate:
        print_campaign_step(campaign, "infer")
        run_podium_command(
            campaign,
            "infer",
            campaign.workload,
            *format_common_arguments(campaign.options),
            *format_serving_arguments(
                campaign.workload, campaign.options.profile, campaign.performance_runs, missing
            ),
            *searching,
        )
    else:
        for scenario in missing:
            mode = "all"
            if scenario in accurate:
                mode = "performance"
            print_campaign_step(campaign, f"infer {scenario.label}, {mode}")
            words = [
                "--scenario",
                scenario.value,
                "--mode",
                mode,
                *format_serving_arguments(
                    campaign.workload,
                    campaign.options.profile,
                    campaign.performance_runs,
                    [scenario],
                ),
            ]
            run_podium_command(
                campaign,
                "infer",
                campaign.workload,
                *format_common_arguments(campaign.options),
                *words,
                *searching,
            )


def format_serving_arguments(
    workload: str, profile: Profile, runs: int | None, scenarios: Sequence[Scenario]
) -> list[str]:
    """Format the performance runs: as many as the run set has, but never fewer than the round
    requires of one of these scenarios.
    """
    row = registry.load_round().benchmark(workload).inference.get(profile)
    if runs is None or row is None:
        return []
    return ["--runs", str(max(runs, *(row.scenarios[scenario].runs for scenario in scenarios)))]


def has_enough_runs(campaign: Campaign, result: IndexedResult) -> bool:
    """Return whether a scenario has as many performance runs as were requested; the judge checks
    the number that the round requires.
    """
    return len(result.performance_folders) >= (campaign.performance_runs or 1)


def run_audit_step(campaign: Campaign) -> list[str]:
    """Run the compliance tests of the scenarios that lack one; return what is wrong. A failed one
    is a finding beside a result that keeps its verdict.
    """
    missing = audits.collect_missing_audits(
        campaign.find_own_results(), campaign.read_training_nonce()
    )
    if not missing:
        print_campaign_step(campaign, "audit: already finished")
    failed = []
    for scenario, test in (
        (scenario, test) for scenario, tests in missing.items() for test in tests
    ):
        print_campaign_step(
            campaign,
            f"audit {scenario.label}" if test == "all" else f"audit {scenario.label}, {test}",
        )
        try:
            run_podium_command(
                campaign,
                "audit",
                campaign.workload,
                *format_common_arguments(campaign.options, METERING_FIELDS),
                "--scenario",
                scenario.value,
                "--test",
                test,
            )
        except JudgedError as error:
            failed.append(str(error))
    return failed


def is_only_performance_missing(campaign: Campaign, result: IndexedResult) -> bool:
    """Return whether an unfinished scenario has an accuracy run that can be kept.

    If LoadGen calls every performance run VALID and the judge still rejects the scenario, accuracy
    may be the reason.
    """
    runs = result.performance_folders
    complete = has_enough_runs(campaign, result) and all(
        campaign.is_own_run(folder) and is_logged_valid(folder) for folder in runs
    )
    return campaign.is_own_run(result.accuracy_folder) and not complete


def run_pack_step(campaign: Campaign, results: Sequence[IndexedResult]) -> Path:
    """Pack the campaign's systems; return the bundle."""
    systems = sorted({result.system for result in results})
    served = next((result.system for result in results if result.scenario), systems[0])
    name = f"{campaign.workload}-{campaign.options.profile}-{served}.tar.zst"
    bundle = campaign.working_folder / BUNDLES_FOLDER / name
    chosen = [word for system in systems for word in ("--system", system)]
    run_podium_command(
        campaign,
        "pack",
        str(campaign.working_folder),
        "--output",
        str(bundle),
        "--workload",
        campaign.workload,
        *chosen,
        "--force",
    )
    return bundle


def format_common_arguments(options: RunOptions, omitted: Collection[str] = ()) -> list[str]:
    """Format the common options as a user would type them, leaving out those that a command does
    not have.
    """
    command_words: list[str] = []
    for name, value in asdict(options).items():
        if name in omitted:
            continue
        if name == "assignments":
            command_words += [word for assignment in value for word in ("--set", assignment)]
        elif value is not None:
            command_words += [f"--{name.replace('_', '-')}", str(value)]
    return command_words


def run_podium_command(campaign: Campaign, name: str, *words: str) -> None:
    """Run a command through the registry; JudgedError if it does not exit with 0."""
    folders = campaign.working_folder, campaign.destination_folder
    command = registry.load_click_command(name)
    try:
        code = command.main(
            args=list(words),
            prog_name=f"podium {name}",
            standalone_mode=False,
            obj=replace(
                get_output_level(), inner=True, moving=folders if folders[0] != folders[1] else None
            ),
        )
    except SystemExit as leaving:
        code = leaving.code
    if code:
        raise JudgedError(f"podium {name} exited with code {code}; see its messages above")


def print_campaign_step(campaign: Campaign, what: str) -> None:
    print_progress_note(f"{campaign.workload}: {what}")


def print_campaign_summary(bundles: Sequence[Path]) -> None:
    """Print the scores, then each report and each bundle on its own line."""
    from submissions.score.score import score_paths
    from submissions.score.text_table import print_scores

    problems: list[str] = []
    with ExitStack() as stack:
        for bundle in bundles:
            with suppress(JudgedError):  # an unreadable bundle is reported with the scores
                # scores and report then reuse the unpacked, judged bundle
                stack.enter_context(open_results(bundle))
        print_scores(score_paths(bundles, problems), bundles)
        print_progress_note("next: podium verify BUNDLE, podium compare BUNDLE OTHER")
        write_bundle_reports(bundles)
    for bundle in bundles:
        click.echo(f"bundle: {bundle}")


def write_bundle_reports(bundles: Sequence[Path]) -> None:
    """Write a report next to each bundle and print its path; if that fails, the bundle is
    unaffected.
    """
    from submissions.report.command import write_bundle_report

    for bundle in bundles:
        try:
            click.echo(f"report: {write_bundle_report(bundle)}")
        except PodiumError as error:
            print_progress_note(f"no report: {error}")
