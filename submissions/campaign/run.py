"""`podium run`: train, infer, check and pack as separate commands; finished steps are skipped."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import click

from submissions import attempts, compliance_check
from submissions.campaign import audits, requested_options
from submissions.campaign.replacement import settle
from submissions.campaign.state import Campaign, Stage, begin, read_state
from submissions.result_index import BUNDLES, Result, opened
from submissions.score import log_values
from suite import registry
from suite.cli import Options
from suite.console.screen import note, screen
from suite.errors import JudgedError, MissingError, PodiumError, RequestError, TemporaryError
from suite.ledger.steps import challenge_problem
from suite.loadgen.scenario import Scenario
from suite.process.lock import exclusive
from suite.process.signals import Interrupted, raised

GOES_ON: Final = "what is finished is kept, and the same command goes on"
VALID: Final = "VALID"
"""LoadGen's verdict on a performance run that counts."""


def campaigns(
    name: str,
    options: Options,
    *,
    seed: int | None,
    runs: int | None,
    challenge: str | None = None,
    audit: bool = False,
    peak: bool = False,
) -> None:
    """Run the campaign of one workload, or of all, where a failed one does not stop the others.

    JudgedError at the end if one missed its target, MissingError if this machine lacks something
    for one, RequestError for an invalid challenge.
    """
    if challenge is not None and (problem := challenge_problem(challenge)):
        raise RequestError(f"--challenge: {problem}")
    names = list(registry.points(registry.WORKLOADS)) if name == "all" else [name]
    bundles: list[Path] = []
    failures: list[PodiumError] = []
    for each in names:
        try:
            with raised() as signals:
                registry.workload(
                    each
                )  # validated before a results folder exists: a rejected request writes nothing
                requested_options.read(each, options, seed, runs, challenge)
                with exclusive(options.results):
                    bundles.append(
                        run_one(each, options, seed, runs, challenge, audit=audit, peak=peak)
                    )
        except Interrupted as error:
            raise interrupted(each, error) from error
        except (JudgedError, MissingError) as error:
            failures.append(error)
            if (
                signals.received is not None
            ):  # it ended for a reason of its own, and nothing else begins
                break
    if bundles:
        summary(bundles)
    if failures:
        sentences = "\n  ".join(map(str, failures))
        raise type(failures[0])(f"{sentences}; {GOES_ON}")


def run_one(
    name: str,
    options: Options,
    seed: int | None,
    runs: int | None,
    challenge: str | None = None,
    *,
    audit: bool = False,
    peak: bool = False,
) -> Path:
    """Begin or resume a campaign, and move it into place when complete; one rejected before its
    first step leaves no state.
    """
    home = options.results.absolute()
    settle(home, name)
    before = read_state(home, name)
    campaign = begin(name, options, seed, runs, challenge)
    try:
        bundle = run(campaign, audit=audit, peak=peak)
    except (RequestError, MissingError):
        if campaign.training() is None:
            campaign.forget(before)
        raise
    except JudgedError:
        settle(home, name)
        raise
    settle(home, name)
    return home / bundle.relative_to(campaign.results)


def interrupted(name: str, error: Interrupted) -> Interrupted:
    """Return the error for a campaign that a signal ended, with the command that resumes it; each
    step knows only its own command.
    """
    told = error.__cause__ if isinstance(error.__cause__, (Interrupted, TemporaryError)) else error
    return type(error)(f"{name}: {told}; {GOES_ON}")


def run(campaign: Campaign, *, audit: bool = False, peak: bool = False) -> Path:
    """Run the remaining steps, with the compliance tests and the search for Server's rate if asked
    for; return the bundle.
    """
    if campaign.results != campaign.home:
        say(
            campaign,
            f"what stands in {campaign.home} stays until this campaign is whole; it is made in"
            f" {campaign.results}",
        )
    train(campaign)
    infer(campaign, peak)
    if audit:
        audit_results(campaign)
    results = campaign.own()
    if not results:
        raise JudgedError(
            f"{campaign.workload}: nothing in {campaign.results} belongs to this campaign, although"
            " every step succeeded"
        )
    say(campaign, "check")
    call("check", *(str(folder) for folder in outermost({result.folder for result in results})))
    attempts.checked(campaign.home, campaign.workload, results)
    say(campaign, "pack")
    bundle = seal(campaign, results)
    attempts.packed(
        campaign.home,
        campaign.workload,
        results,
        bundle.relative_to(campaign.results).as_posix(),
        bundle,
    )
    campaign.reached(Stage.FINISHED)
    return bundle


def outermost(folders: set[Path]) -> list[Path]:
    """Drop folders inside others of the set: a training set may share a folder with its workload's
    scenarios.
    """
    return sorted(folder for folder in folders if not folders & set(folder.parents))


def train(campaign: Campaign) -> None:
    """Train, or resume training; JudgedError if the target was missed, after which the next
    campaign starts over.
    """
    if campaign.training_is_done():
        say(campaign, "train: finished already")
        return
    found = campaign.training()
    sets = [result for result in campaign.own() if result.scenario is None]
    try:
        if found and not found.unfinished and sets:
            say(campaign, "train: finished, and refused by the judge")
            call("check", *(str(result.folder) for result in sets))
        say(campaign, "train")
        call(
            "train",
            campaign.workload,
            *arguments(campaign.options),
            *train_arguments(campaign, resumed=bool(found and found.unfinished)),
        )
    except JudgedError:
        campaign.reached(Stage.MISSED)
        raise


def train_arguments(campaign: Campaign, *, resumed: bool) -> list[str]:
    """Format the options that only training has."""
    words = ["--resume"] if resumed else []
    words += [] if campaign.seed is None else ["--seed", str(campaign.seed)]
    words += [] if campaign.challenge is None else ["--challenge", campaign.challenge]
    return words + ([] if campaign.runs is None else ["--runs", str(campaign.runs)])


def infer(campaign: Campaign, peak: bool = False) -> None:
    """Serve the unfinished scenarios: together if none has begun, else one by one with the runs
    that each lacks.
    """
    row = registry.round().benchmark(campaign.workload).inference.get(campaign.options.profile)
    finished = {
        result.scenario
        for result in campaign.own()
        if result.scenario and enough_runs(campaign, result) and compliance_check.valid(result)
    }
    accurate = {
        result.scenario
        for result in campaign.found()
        if result.scenario and lacks_performance_alone(campaign, result)
    }
    searching = ["--peak"] if peak else []
    missing = [scenario for scenario in (row.scenarios if row else ()) if scenario not in finished]
    if not missing:
        say(campaign, "infer: finished already")
    elif set(missing) == set(Scenario) and not accurate:
        say(campaign, "infer")
        call(
            "infer",
            campaign.workload,
            *arguments(campaign.options),
            *serving_arguments(campaign, missing),
            *searching,
        )
    else:
        for scenario in missing:
            mode = "performance" if scenario in accurate else "all"
            say(campaign, f"infer {scenario.label}, {mode}")
            words = [
                "--scenario",
                scenario.value,
                "--mode",
                mode,
                *serving_arguments(campaign, [scenario]),
            ]
            call("infer", campaign.workload, *arguments(campaign.options), *words, *searching)


def serving_arguments(campaign: Campaign, scenarios: Sequence[Scenario]) -> list[str]:
    """Format the performance runs: as many as the training set has, but never fewer than the round
    requires of one of these scenarios.
    """
    row = registry.round().benchmark(campaign.workload).inference.get(campaign.options.profile)
    if campaign.runs is None or row is None:
        return []
    return [
        "--runs",
        str(max(campaign.runs, *(row.scenarios[scenario].runs for scenario in scenarios))),
    ]


def enough_runs(campaign: Campaign, result: Result) -> bool:
    """Return whether a scenario has as many performance runs as were asked for; how many the round
    requires is the judge's business.
    """
    return len(result.performance) >= (campaign.runs or 1)


def audit_results(campaign: Campaign) -> None:
    """Run the compliance tests of the scenarios that lack one; JudgedError if one fails."""
    missing = audits.lacking(campaign.own(), campaign.nonce())
    if not missing:
        say(campaign, "audit: finished already")
    unmetered, failed = replace(campaign.options, power="off", meter=None), []
    for scenario, test in (
        (scenario, test) for scenario, tests in missing.items() for test in tests
    ):
        say(
            campaign,
            f"audit {scenario.label}" if test == "all" else f"audit {scenario.label}, {test}",
        )
        try:
            call(
                "audit",
                campaign.workload,
                *arguments(unmetered),
                "--scenario",
                scenario.value,
                "--test",
                test,
            )
        except JudgedError as error:
            failed.append(str(error))
    if failed:
        raise JudgedError("; ".join(failed))


def lacks_performance_alone(campaign: Campaign, result: Result) -> bool:
    """Return whether an unfinished scenario has an accuracy run that can be kept.

    If LoadGen calls every performance run VALID and the judge still rejects the scenario, accuracy
    may be the reason.
    """
    runs = result.performance
    complete = enough_runs(campaign, result) and all(
        campaign.keeps(folder) and log_values.served(folder).verdict == VALID for folder in runs
    )
    return campaign.keeps(result.accuracy) and not complete


def seal(campaign: Campaign, results: Sequence[Result]) -> Path:
    """Pack the campaign's systems; return the bundle."""
    systems = sorted({result.system for result in results})
    served = next((result.system for result in results if result.scenario), systems[0])
    name = f"{campaign.workload}-{campaign.options.profile}-{served}.tar.zst"
    bundle = campaign.results / BUNDLES / name
    chosen = [word for system in systems for word in ("--system", system)]
    call(
        "pack",
        str(campaign.results),
        "--output",
        str(bundle),
        "--workload",
        campaign.workload,
        *chosen,
    )
    return bundle


def arguments(options: Options) -> list[str]:
    """Format the common options as a user would type them."""
    spelled: list[str] = []
    for name, value in asdict(options).items():
        if name == "assignments":
            spelled += [word for assignment in value for word in ("--set", assignment)]
        elif value is not None:
            spelled += [f"--{name.replace('_', '-')}", str(value)]
    return spelled


def call(name: str, *words: str) -> None:
    """Run a command through the registry; JudgedError if it does not exit with 0."""
    command: click.Command = registry.resolve(registry.COMMANDS, "command", name)
    try:
        code = command.main(
            args=list(words),
            prog_name=f"podium {name}",
            standalone_mode=False,
            obj=replace(screen(), inner=True),
        )
    except SystemExit as leaving:
        code = leaving.code
    if code:
        raise JudgedError(f"podium {name} ended with {code}: see above")


def say(campaign: Campaign, what: str) -> None:
    """Print the campaign's current step."""
    note(f"{campaign.workload}: {what}")


def summary(bundles: Sequence[Path]) -> None:
    """Print the scores, then each report and each bundle on its own line."""
    from submissions.score.score import score_paths
    from submissions.tables import print_scores

    problems: list[str] = []
    with ExitStack() as stack:
        for bundle in bundles:
            with suppress(JudgedError):  # one that cannot be opened is a problem of the scores
                stack.enter_context(
                    opened(bundle)
                )  # for scores and report, which find it unpacked and judged
        print_scores(score_paths(bundles, problems), bundles)
        note("next: podium verify BUNDLE, podium compare BUNDLE OTHER")
        reported(bundles)
    for bundle in bundles:
        click.echo(f"bundle: {bundle}")


def reported(bundles: Sequence[Path]) -> None:
    """Write a report next to each bundle and print its path; if that fails, the bundle is
    unaffected.
    """
    from submissions.report.command import beside

    for bundle in bundles:
        try:
            click.echo(f"report: {beside(bundle)}")
        except PodiumError as error:
            note(f"no report: {error}")
