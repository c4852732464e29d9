"""The commands data, train, infer, precision, doctor, power and meter; thin, so that `--help` loads no framework."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from click.core import ParameterSource

from suite.cli import PATH, Options, common_options
from suite.console.parameters import SCENARIO, WORKLOAD
from suite.console.screen import VERBOSE
from suite.errors import MissingError
from suite.loadgen.scenario import parse_scenarios
from suite.process import installation
from suite.terms import Profile


@contextmanager
def installed() -> Iterator[None]:
    """Turn a package that is not installed into one sentence."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingError(installation.lacking(error.name or str(error))) from error


@click.command()
@click.argument("workload", type=WORKLOAD, metavar="WORKLOAD")
@click.option("--data", type=PATH, help="Folder with the real data set; without it, the embedded data.")
@click.option("--profile", type=click.Choice([profile.value for profile in Profile]), default="smoke", show_default=True, help="Whose settings to take.")
@click.option("--config", type=PATH, help="TOML file of settings.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Change one setting; may be repeated.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format.")
def data(workload: str, data: Path | None, profile: str, config: Path | None, assignments: tuple[str, ...], form: str) -> None:
    """Look over a data set once: check, count and hash it, before any clock.

    train, run and infer take what was found, and look themselves where nobody has; after a change of the data, look again.

    Example: podium data resnet50 --data /data/imagenet --profile full
    """
    with installed(), TemporaryDirectory() as folder:
        from harness.data_survey import look
        from harness.request import reading

        look(workload, reading(Profile(profile), data, Path(folder), config, assignments), form)


@click.command()
@click.argument("workload", type=WORKLOAD, metavar="WORKLOAD")
@common_options
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the first run; without it, drawn at random and logged.")
@click.option("--runs", type=click.IntRange(min=1), help="Runs of the set; without it, as many as the round asks for.")
@click.option("--resume", is_flag=True, help="Go on with an unfinished set from its last checkpoint, with the options that it was begun with.")
def train(workload: str, options: Options, seed: int | None, runs: int | None, resume: bool) -> None:
    """Train WORKLOAD until it reaches its target quality.

    Example: podium train resnet50 --seed 1
    """
    with installed():
        from harness.training.run_set import train_set

        context = click.get_current_context()
        given = {name for name in Options.__dataclass_fields__ if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
        train_set(workload, options, seed=seed, runs=runs, resume=resume, given=given)


@click.command()
@click.argument("workload", type=WORKLOAD, metavar="WORKLOAD")
@common_options
@click.option("--scenario", type=SCENARIO, default="all", show_default=True, help="What LoadGen does.")
@click.option("--mode", type=click.Choice(["accuracy", "performance", "all"]), default="all", show_default=True, help="What the LoadGen runs are for.")
@click.option("--checkpoint", type=PATH, help="Folder of exported weights; without it, the newest that reached the target.")
def infer(workload: str, options: Options, scenario: str, mode: str, checkpoint: Path | None) -> None:
    """Serve WORKLOAD under LoadGen and prove its accuracy.

    Example: podium infer resnet50 --scenario offline
    """
    with installed():
        from harness.serving.infer import serve

        serve(workload, options, scenarios=parse_scenarios(scenario), mode=mode, checkpoint=checkpoint)


@click.command()
@click.argument("workload", type=WORKLOAD, metavar="WORKLOAD")
@common_options
@click.option("--checkpoint", type=PATH, help="Folder of exported weights; without it, the newest that reached the target.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format.")
def precision(workload: str, options: Options, checkpoint: Path | None, form: str) -> None:
    """Serve WORKLOAD by every engine in every number format that this machine has: accuracy beside speed.

    Without --engine and --precision it takes all of them.

    Example: podium precision resnet50 --format json
    """
    with installed():
        from harness.serving.precision import compare

        named = click.get_current_context().get_parameter_source("engine") is not ParameterSource.DEFAULT
        compare(workload, options, engine=options.engine if named else None, checkpoint=checkpoint, form=form)


@click.command()
@click.argument("workload", required=False, type=WORKLOAD, metavar="[WORKLOAD]")
@click.option("--data", type=PATH, help="Folder with the real data set, to see whether it can be used.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@VERBOSE
def doctor(workload: str | None, data: Path | None, form: str) -> None:
    """Show versions, what this machine can run, and how to add what is missing; -v gives every reason.

    Example: podium doctor resnet50
    """
    with installed():
        from harness.doctor.report import report

        report(workload, data, form)


@click.group(invoke_without_command=True)
@click.option("--root", type=PATH, help="Where the kernel's files lie; anything but / is a rehearsal.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@click.pass_context
def power(context: click.Context, root: Path | None, form: str) -> None:
    """Show which watts can be read here, each with a reading, its grade and its scope; and why others cannot.

    Example: podium power --format json
    """
    if context.invoked_subcommand is None:
        with installed():
            from harness.machine.power.report import report
            from harness.machine.power.selection import power_root

            report(root or power_root(), form)


LISTEN = click.option("--listen", metavar="HOST:PORT", help="Serve callers over TCP; without it, standard input and output.")


@click.group()
def meter() -> None:
    """Be a power meter that --meter takes: a program that speaks the text protocol of docs/POWER.md.

    Example: podium meter fake --watts 50
    """


@meter.command("fake")
@click.option("--watts", type=click.FloatRange(min=0), default=50.0, show_default=True, help="What it says that is drawn.")
@click.option("--profile", type=PATH, help="File of lines UTC_NS WATTS instead.")
@click.option("--period-ms", type=click.IntRange(min=10, max=60_000), default=100, show_default=True, help="Between two samples.")
@LISTEN
def fake_meter(watts: float, profile: Path | None, period_ms: int, listen: str | None) -> None:
    """Measure nothing, and say the watts that are given: to try out everything that follows.

    Example: podium infer resnet50 --scenario offline --meter "podium meter fake --watts 50"
    """
    from harness.machine.power.meters import fake, server

    server.serve(fake.greeting(period_ms), period_ms, fake.Profile(profile) if profile else lambda: watts, listen)


@meter.command("hwmon")
@click.option("--period-ms", type=click.IntRange(min=10, max=60_000), default=1000, show_default=True, help="Between two samples.")
@LISTEN
def hwmon_meter(period_ms: int, listen: str | None) -> None:
    """Read this machine's ACPI power meter for a caller on another machine.

    Example: podium meter hwmon --listen 0.0.0.0:7070
    """
    from harness.machine.power.meters import hwmon, server

    traits, read = hwmon.meter()
    server.serve(f"{traits} period_ms={period_ms}", period_ms, read, listen)


@meter.command("ipmi")
@click.option("--period-ms", type=click.IntRange(min=100, max=60_000), default=1000, show_default=True, help="Between two samples.")
@LISTEN
@click.argument("options", nargs=-1, metavar="[IPMITOOL OPTIONS]")
def ipmi_meter(period_ms: int, listen: str | None, options: tuple[str, ...]) -> None:
    """Read a server's management controller through ipmitool (DCMI).

    Example: podium infer resnet50 --meter "podium meter ipmi -- -H bmc.example -U reader"
    """
    from harness.machine.power.meters import ipmi, server

    traits, read = ipmi.meter(options)
    server.serve(f"{traits} period_ms={period_ms}", period_ms, read, listen)
