"""The commands data, train, infer, precision, sweep, doctor, power and meter; thin, so that
`--help` loads no framework.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from harness.installed import installed
from harness.serving.network.cli import (
    add_endpoint_options,
    build_endpoint_options,
    resolve_infer_scenarios,
)
from suite.cli import PATH_TYPE, RunOptions, add_common_options, require_available_threads
from suite.console.parameters import (
    ENGINE_TYPE,
    FRAMEWORK_TYPE,
    NETWORK_TYPE,
    SCENARIO_TYPE,
    WORKLOAD_TYPE,
    FiniteRange,
)
from suite.console.screen import VERBOSE_OPTION
from suite.errors import RequestError
from suite.terms import Precision, Profile

if TYPE_CHECKING:
    from harness.serving.sweep.subjects import SweepOptions as Swept

MAX_SWEEP_BATCH_SIZE: Final = 65_536
"""Of a sweep; more is a slip of the keyboard."""


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@click.option(
    "--data", type=PATH_TYPE, help="Folder with the real data set; without it, the embedded data."
)
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default="smoke",
    show_default=True,
    help="Whose settings to take.",
)
@click.option("--config", type=PATH_TYPE, help="TOML file of settings.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change one setting; may be repeated.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format."
)
def data(
    workload: str,
    data: Path | None,
    profile: str,
    config: Path | None,
    assignments: tuple[str, ...],
    form: str,
) -> None:
    """Look over a data set once: check, count and hash it, before any clock.

    train, run and infer take what was found, and look themselves where nobody has; after a change
    of the data, look again.

    Example: podium data resnet50 --data /data/imagenet --profile full
    """
    with installed(), TemporaryDirectory() as folder:
        from harness.data_survey import run_data_survey
        from harness.request import build_reading_options

        run_data_survey(
            workload,
            build_reading_options(Profile(profile), data, Path(folder), config, assignments),
            form,
        )


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_common_options
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Seed of the first run; without it, drawn at random and logged.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help="Runs of the set; without it, as many as the round asks for.",
)
@click.option(
    "--resume",
    is_flag=True,
    help=(
        "Go on with an unfinished set from its last checkpoint, with the options that it was begun"
        " with."
    ),
)
@click.option(
    "--challenge",
    hidden=True,
    help="Hexadecimal digits that the nonce is made from; podium run passes them on.",
)
def train(
    workload: str,
    options: RunOptions,
    seed: int | None,
    runs: int | None,
    resume: bool,
    challenge: str | None,
) -> None:
    """Train WORKLOAD until it reaches its target quality.

    Example: podium train resnet50 --seed 1
    """
    with installed():
        from harness.training.run_set import train_run_set

        context = click.get_current_context()
        given = {
            name
            for name in RunOptions.__dataclass_fields__
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT
        }
        train_run_set(
            workload, options, seed=seed, runs=runs, resume=resume, given=given, challenge=challenge
        )


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_common_options
@click.option(
    "--scenario", type=SCENARIO_TYPE, default="all", show_default=True, help="What LoadGen does."
)
@click.option(
    "--mode",
    type=click.Choice(["accuracy", "performance", "all"]),
    default="all",
    show_default=True,
    help="What the LoadGen runs are for.",
)
@click.option(
    "--checkpoint",
    type=PATH_TYPE,
    help="Folder of exported weights; without it, the newest that reached the target.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help=(
        "Performance runs of each scenario, each judged; without it, as many as the round asks for."
    ),
)
@click.option(
    "--weights",
    metavar="random|DIR",
    help=(
        "Measure speed alone, of random weights or of a checkpoint that was not trained here: no"
        " result."
    ),
)
@click.option(
    "--peak",
    is_flag=True,
    help="Search Server's highest rate within the round's bound; the best run is the result.",
)
@add_endpoint_options
def infer(
    workload: str,
    options: RunOptions,
    scenario: str,
    mode: str,
    checkpoint: Path | None,
    runs: int | None,
    **values: Any,
) -> None:
    """Serve WORKLOAD under LoadGen and prove its accuracy.

    Of several performance runs the slowest counts; from three on, a comparison has an interval.
    With --endpoint, it measures servers: Offline and Server.

    Example: podium infer resnet50 --scenario offline
    """
    weights, peak = values["weights"], values["peak"]
    scenarios = resolve_infer_scenarios(values, scenario)
    if weights and (checkpoint or peak or mode == "accuracy"):
        raise RequestError(
            "--weights measures speed alone; leave out"
            f" {'--checkpoint' if checkpoint else '--peak' if peak else '--mode accuracy'}"
        )
    with installed():
        from harness.serving.infer import serve_workload
        from harness.serving.peak.command import search_round_peak
        from harness.serving.weights.speed import measure_weights_speed

        if weights:
            measure_weights_speed(
                workload, options, scenarios=scenarios, weights=weights, runs=runs
            )
            return
        search, asked = search_round_peak if peak else None, build_endpoint_options(values)
        serve_workload(
            workload,
            options,
            scenarios=scenarios,
            mode=mode,
            checkpoint=checkpoint,
            runs=runs,
            search=search,
            endpoint_options=asked,
        )


@click.command()
@click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD")
@add_common_options
@click.option(
    "--checkpoint",
    type=PATH_TYPE,
    help="Folder of exported weights; without it, the newest that reached the target.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format."
)
def precision(workload: str, options: RunOptions, checkpoint: Path | None, form: str) -> None:
    """Serve WORKLOAD by every engine in every number format that this machine has: accuracy beside
    speed.

    Without --engine and --precision it takes all of them.

    Example: podium precision resnet50 --format json
    """
    with installed():
        from harness.serving.precision import compare_precisions

        named = (
            click.get_current_context().get_parameter_source("engine")
            is not ParameterSource.DEFAULT
        )
        compare_precisions(
            workload,
            options,
            engine=options.engine if named else None,
            checkpoint=checkpoint,
            form=form,
        )


def parse_sweep_batch_sizes(_: click.Context, __: click.Parameter, text: str) -> tuple[int, ...]:
    """Read batch sizes; each counts once."""
    sizes = [
        int(part) if part.strip().isascii() and part.strip().isdigit() else 0
        for part in text.split(",")
    ]
    if not all(0 < size <= MAX_SWEEP_BATCH_SIZE for size in sizes):
        raise click.BadParameter(
            f"{text!r}: write batch sizes from 1 to {MAX_SWEEP_BATCH_SIZE:,} with commas, as in"
            " 1,2,4,8"
        )
    return tuple(dict.fromkeys(sizes))


@click.command()
@click.argument("workloads", nargs=-1, type=WORKLOAD_TYPE, metavar="[WORKLOAD...]")
@click.option(
    "--network",
    "networks",
    multiple=True,
    type=NETWORK_TYPE,
    help="A bare network, with random weights; may be repeated.",
)
@click.option(
    "--batches",
    default="1,2,4,8",
    show_default=True,
    callback=parse_sweep_batch_sizes,
    help="Batch sizes to measure.",
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=ENGINE_TYPE,
    default=("torch",),
    show_default=True,
    help="Inference engine; may be repeated.",
)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    type=click.Choice([each.value for each in Precision]),
    default=("fp32",),
    show_default=True,
    help="Number format; may be repeated.",
)
@click.option(
    "--within-ms",
    type=FiniteRange(min=0, min_open=True),
    help="Name the largest batch whose p99 latency is within this budget.",
)
@click.option(
    "--seconds",
    type=FiniteRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Shortest length of a point.",
)
@click.option(
    "--weights", type=PATH_TYPE, help="safetensors file for one --network, in torchvision's names."
)
@click.option(
    "--checkpoint",
    type=PATH_TYPE,
    help=(
        "Folder of exported weights of one WORKLOAD; without it, the newest that reached the"
        " target."
    ),
)
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default="smoke",
    show_default=True,
    help="Of workloads.",
)
@click.option(
    "--framework",
    type=FRAMEWORK_TYPE,
    default="torch",
    show_default=True,
    help="Framework of workloads' models.",
)
@click.option(
    "--data",
    type=PATH_TYPE,
    help=(
        "Folder with the real data set of one WORKLOAD, or with pictures to score one --network on"
        " (ImageNet's val/)."
    ),
)
@click.option(
    "--results",
    type=PATH_TYPE,
    default=Path("results"),
    show_default=True,
    help="Results folder; a study lies in its studies/NAME.",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="cpu, cuda, cuda:1; auto takes a GPU where there is one.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=0),
    default=0,
    callback=require_available_threads,
    help="CPU threads; 0: as many as others leave cores.",
)
@click.option("--config", type=PATH_TYPE, help="TOML file of settings.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change one setting; may be repeated.",
)
@click.option(
    "--power",
    default="auto",
    show_default=True,
    metavar="auto|off|NAME,...",
    help="Power sources to read; podium power lists them.",
)
@click.option(
    "--meter", metavar="tcp://HOST:PORT|COMMAND", help="An external power meter; see docs/POWER.md."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the order of the points.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def sweep(workloads: tuple[str, ...], networks: tuple[str, ...], form: str, **values: Any) -> None:
    """Measure throughput and latency of WORKLOADS and bare networks for each batch size, engine and
    number format.

    Each point is a LoadGen run of its own, a closed loop of queries of as many samples as the
    batch; what is measured already is not measured again.

    Example: podium sweep --network alexnet --network vgg19 --batches 1,2,4,8 --engine onnxruntime
    --within-ms 7
    """
    if not workloads and not networks:
        raise click.UsageError("what is to be measured? name workloads, or networks with --network")
    with installed():
        from harness.serving.sweep.command import run_sweep

        run_sweep(*build_sweep_request(workloads, networks, values), form)


def build_sweep_request(
    workloads: tuple[str, ...], networks: tuple[str, ...], values: dict[str, Any]
) -> "tuple[Swept, RunOptions]":
    """Turn the options into a request and what all points share; RequestError where they contradict
    one another.
    """
    from harness.serving.sweep.subjects import SweepOptions as Swept

    for option, names in (
        ("weights", networks),
        ("checkpoint", workloads),
        ("data", workloads or networks),
    ):
        if values[option] and len(names) != 1:
            raise RequestError(
                f"--{option} belongs to one {'--network' if names is networks else 'workload'}:"
                f" {', '.join(names) or 'none was named'}"
            )
    if both := set(workloads) & set(networks):
        raise RequestError(
            f"{', '.join(sorted(both))}: a workload and a network of that name share a folder;"
            " sweep one at a time, with another --results"
        )
    shared = {
        name: values.pop(name)
        for name in (
            "profile",
            "framework",
            "data",
            "results",
            "device",
            "threads",
            "config",
            "assignments",
            "power",
            "meter",
        )
    }
    shared["profile"] = Profile(shared["profile"])
    options = RunOptions(
        **shared, engine="torch", input="default", precision=None, org="unaffiliated", system=None
    )
    precisions = tuple(Precision(each) for each in dict.fromkeys(values.pop("precisions")))
    engines = tuple(dict.fromkeys(values.pop("engines")))
    return (
        Swept(
            workloads=tuple(dict.fromkeys(workloads)),
            networks=tuple(dict.fromkeys(networks)),
            engines=engines,
            precisions=precisions,
            **values,
        ),
        options,
    )


@click.command()
@click.argument("workload", required=False, type=WORKLOAD_TYPE, metavar="[WORKLOAD]")
@click.option(
    "--data", type=PATH_TYPE, help="Folder with the real data set, to see whether it can be used."
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format."
)
@VERBOSE_OPTION
def doctor(workload: str | None, data: Path | None, form: str) -> None:
    """Show versions, what this machine can run, and how to add what is missing; -v gives every
    reason.

    Example: podium doctor resnet50
    """
    with installed():
        from harness.doctor.report import print_readiness_report

        print_readiness_report(workload, data, form)


@click.group(invoke_without_command=True)
@click.option(
    "--root", type=PATH_TYPE, help="Where the kernel's files lie; anything but / is a rehearsal."
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format."
)
@click.pass_context
def power(context: click.Context, root: Path | None, form: str) -> None:
    """Show which watts can be read here, each with a reading, its grade and its scope; and why
    others cannot.

    Example: podium power --format json
    """
    if context.invoked_subcommand is None:
        with installed():
            from harness.machine.power.report import print_power_sources
            from harness.machine.power.selection import resolve_power_root

            print_power_sources(root or resolve_power_root(), form)


@power.command("import")
@click.argument("session", type=PATH_TYPE)
@click.argument("run", type=PATH_TYPE, metavar="RUN_FOLDER")
def import_session(session: Path, run: Path) -> None:
    """Put a session of the MLPerf Power workflow beside the performance run that it measured.

    SESSION is the folder with power/, ranging/ and run_1/. Only a session that holds is copied.

    Example: podium power import 2026-11-22_10-00-00_resnet50
    results/open/acme/results/box/resnet50/Offline/performance/run_1
    """
    with installed():
        from harness.machine.power.session_import import import_power_session

        import_power_session(session, run)


@power.command("export")
@click.argument("logs", type=PATH_TYPE, nargs=-1, required=True, metavar="LOG...")
@click.option(
    "-o",
    "target",
    type=PATH_TYPE,
    required=True,
    help="Folder that gets power/result_<i>/node_<n>.txt.",
)
def export_power(logs: tuple[Path, ...], target: Path) -> None:
    """Write a training run's watts as MLPerf Training files them: one file per node, readings of
    the whole node alone.

    Example: podium power export results/open/acme/results/box/resnet/result_0.txt -o power-logs
    """
    with installed():
        from harness.training.power_export import export_node_power

        export_node_power(logs, target)


LISTEN_OPTION = click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Serve callers over TCP; without it, standard input and output.",
)


@click.group()
def meter() -> None:
    """Be a power meter that --meter takes: a program that speaks the text protocol of
    docs/POWER.md.

    Example: podium meter fake --watts 50
    """


@meter.command("fake")
@click.option(
    "--watts",
    type=FiniteRange(min=0),
    default=50.0,
    show_default=True,
    help="What it says that is drawn.",
)
@click.option("--profile", type=PATH_TYPE, help="File of lines UTC_NS WATTS instead.")
@click.option(
    "--period-ms",
    type=click.IntRange(min=10, max=60_000),
    default=100,
    show_default=True,
    help="Between two samples.",
)
@LISTEN_OPTION
def fake_meter(watts: float, profile: Path | None, period_ms: int, listen: str | None) -> None:
    """Measure nothing, and say the watts that are given: to try out everything that follows.

    Example: podium infer resnet50 --scenario offline --meter "podium meter fake --watts 50"
    """
    from harness.machine.power.meters import fake, server

    server.serve_meter(
        fake.format_fake_greeting(period_ms),
        period_ms,
        fake.FakePowerProfile(profile) if profile else lambda: watts,
        listen,
    )


@meter.command("hwmon")
@click.option(
    "--period-ms",
    type=click.IntRange(min=10, max=60_000),
    default=1000,
    show_default=True,
    help="Between two samples.",
)
@LISTEN_OPTION
def hwmon_meter(period_ms: int, listen: str | None) -> None:
    """Read this machine's ACPI power meter for a caller on another machine.

    Example: podium meter hwmon --listen 0.0.0.0:7070
    """
    from harness.machine.power.meters import hwmon, server

    traits, read = hwmon.open_hwmon_meter()
    server.serve_meter(f"{traits} period_ms={period_ms}", period_ms, read, listen)


@meter.command("ipmi")
@click.option(
    "--period-ms",
    type=click.IntRange(min=100, max=60_000),
    default=1000,
    show_default=True,
    help="Between two samples.",
)
@LISTEN_OPTION
@click.argument("options", nargs=-1, metavar="[IPMITOOL OPTIONS]")
def ipmi_meter(period_ms: int, listen: str | None, options: tuple[str, ...]) -> None:
    """Read a server's management controller through ipmitool (DCMI).

    Example: podium infer resnet50 --meter "podium meter ipmi -- -H bmc.example -U reader"
    """
    from harness.machine.power.meters import ipmi, server

    traits, read = ipmi.open_ipmi_meter(options)
    server.serve_meter(f"{traits} period_ms={period_ms}", period_ms, read, listen)
