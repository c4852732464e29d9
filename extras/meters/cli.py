"""The command `meter` and its subcommands."""

from pathlib import Path

import click

from suite.console.parameters import PATH_TYPE, FiniteRange

LISTEN_OPTION = click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Serve clients over TCP (default: standard input and output).",
)


@click.group()
def meter() -> None:
    """Act as a power meter that --meter can read: a program that speaks podium's text protocol for
    meters.

    Example: podium meter fake --watts 50
    """


@meter.command("fake", short_help="Report a fixed wattage without measuring.")
@click.option(
    "--watts",
    type=FiniteRange(min=0),
    default=50.0,
    show_default=True,
    help="Watts to report.",
)
@click.option(
    "--profile", type=PATH_TYPE, help="File of lines UTC_NS WATTS to report instead of --watts."
)
@click.option(
    "--period-ms",
    type=click.IntRange(min=10, max=60_000),
    default=100,
    show_default=True,
    help="Time between two samples.",
)
@LISTEN_OPTION
def fake_meter(watts: float, profile: Path | None, period_ms: int, listen: str | None) -> None:
    """Report a fixed wattage without measuring anything, to test the rest of the pipeline.

    Example: podium infer resnet50 --scenario offline --meter "podium meter fake --watts 50"
    """
    from extras.meters import fake, server

    server.serve_meter(
        fake.format_fake_greeting(period_ms),
        period_ms,
        fake.FakePowerProfile(profile) if profile else lambda: watts,
        listen,
    )


@meter.command("hwmon", short_help="Read this machine's ACPI power meter.")
@click.option(
    "--period-ms",
    type=click.IntRange(min=10, max=60_000),
    default=1000,
    show_default=True,
    help="Time between two samples.",
)
@LISTEN_OPTION
def hwmon_meter(period_ms: int, listen: str | None) -> None:
    """Read this machine's ACPI power meter for a client on another machine.

    Example: podium meter hwmon --listen 0.0.0.0:7070
    """
    from extras.meters import hwmon, server

    traits, read = hwmon.open_hwmon_meter()
    server.serve_meter(f"{traits} period_ms={period_ms}", period_ms, read, listen)


@meter.command("ipmi", short_help="Read a server's management controller.")
@click.option(
    "--period-ms",
    type=click.IntRange(min=100, max=60_000),
    default=1000,
    show_default=True,
    help="Time between two samples.",
)
@LISTEN_OPTION
@click.argument("options", nargs=-1, metavar="[IPMITOOL OPTIONS]")
def ipmi_meter(period_ms: int, listen: str | None, options: tuple[str, ...]) -> None:
    """Read a server's management controller through ipmitool (DCMI).

    Example: podium infer resnet50 --meter "podium meter ipmi -- -H bmc.example -U reader"
    """
    from extras.meters import ipmi, server

    traits, read = ipmi.open_ipmi_meter(options)
    server.serve_meter(f"{traits} period_ms={period_ms}", period_ms, read, listen)
