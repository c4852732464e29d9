"""podium's own commands: a summary for `podium --help`, the group of the help that a command stands
in, and the page of the documentation about it. A command is not loaded for any of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class HelpGroup(StrEnum):
    """Headings of `podium --help`, in their order."""

    MEASURE = "Measure"
    JUDGE = "Judge"
    SHARE = "Compare and share"
    MACHINE = "Machine"
    EXTEND = "Extend"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCommand:
    """What the help shows of one of podium's commands."""

    group: HelpGroup
    summary: str
    topic: str
    """The page about it, as `podium help TOPIC` finds it."""
    everyday: bool = False
    """Whether `podium --help` lists it; `podium help --all` lists every command."""


OWN_COMMANDS: Final[Mapping[str, OwnCommand]] = {
    "run": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Run the whole campaign: train, infer, check, pack.",
        topic="first-result",
        everyday=True,
    ),
    "infer": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Serve a trained workload, a server or an ONNX file under LoadGen.",
        topic="reading-results",
        everyday=True,
    ),
    "train": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Train a workload until it reaches its target quality.",
        topic="first-result",
    ),
    "data": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Check, count and hash a data set before any timed run.",
        topic="your-data",
    ),
    "audit": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Run compliance tests on served results.",
        topic="reference/audits",
    ),
    "serve": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Serve a trained workload to other machines.",
        topic="remote-systems",
    ),
    "sweep": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Measure throughput and latency by batch size.",
        topic="reference/sweep",
    ),
    "peak": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Find the highest rate within a latency bound.",
        topic="reference/peak",
    ),
    "curve": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Trace throughput against speed per user of a language model.",
        topic="reference/curve",
    ),
    "precision": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Compare accuracy and speed by engine and precision.",
        topic="reference/precision",
    ),
    "ab": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Tell which of two sides is faster, in the fewest runs that can say so.",
        topic="ab",
    ),
    "restore": OwnCommand(
        group=HelpGroup.MEASURE,
        summary="Bring back results that a newer run replaced.",
        topic="reading-results",
    ),
    "check": OwnCommand(
        group=HelpGroup.JUDGE,
        summary="Check logs, run sets, results trees and bundles.",
        topic="judge",
        everyday=True,
    ),
    "score": OwnCommand(
        group=HelpGroup.JUDGE,
        summary="Print the scores of a results tree or bundle.",
        topic="scores",
        everyday=True,
    ),
    "runs": OwnCommand(
        group=HelpGroup.JUDGE,
        summary="List the results in a folder by day, with label and verdict.",
        topic="reading-results",
    ),
    "explain": OwnCommand(
        group=HelpGroup.JUDGE,
        summary="Explain a rule, and how to fix a violation.",
        topic="judge",
    ),
    "compare": OwnCommand(
        group=HelpGroup.SHARE,
        summary="Compare results, with confidence intervals.",
        topic="reference/compare",
        everyday=True,
    ),
    "history": OwnCommand(
        group=HelpGroup.SHARE,
        summary="Keep results by commit in git, and find when they changed.",
        topic="reference/history",
    ),
    "report": OwnCommand(
        group=HelpGroup.SHARE,
        summary="Write a one-page report of results.",
        topic="reference/report",
        everyday=True,
    ),
    "verify": OwnCommand(
        group=HelpGroup.SHARE,
        summary="Verify a bundle's seal and signatures.",
        topic="signing",
        everyday=True,
    ),
    "pack": OwnCommand(
        group=HelpGroup.SHARE, summary="Seal a results folder into a bundle.", topic="bundle"
    ),
    "sign": OwnCommand(
        group=HelpGroup.SHARE, summary="Sign a bundle with an SSH key.", topic="signing"
    ),
    "accept": OwnCommand(
        group=HelpGroup.SHARE,
        summary="Buy and sell by a number: contract, run, check.",
        topic="accept",
    ),
    "timestamp": OwnCommand(
        group=HelpGroup.SHARE, summary="Time-stamp a bundle (RFC 3161).", topic="signing"
    ),
    "submit": OwnCommand(
        group=HelpGroup.SHARE,
        summary="Build a submission to MLCommons from podium's own results.",
        topic="guides/submit",
    ),
    "publish": OwnCommand(
        group=HelpGroup.SHARE, summary="Build a static site of many results.", topic="site"
    ),
    "published": OwnCommand(
        group=HelpGroup.SHARE,
        summary="List published results, each with its source.",
        topic="reference/published",
    ),
    "cost": OwnCommand(
        group=HelpGroup.SHARE,
        summary="Compute the cost of samples and trainings at your prices.",
        topic="reference/cost",
    ),
    "scaling": OwnCommand(
        group=HelpGroup.SHARE, summary="Predict step times on many devices.", topic="scaling"
    ),
    "doctor": OwnCommand(
        group=HelpGroup.MACHINE,
        summary="Show what this machine can run, and what is missing.",
        topic="engines",
        everyday=True,
    ),
    "list": OwnCommand(
        group=HelpGroup.MACHINE,
        summary="List workloads, engines, rounds, settings, rules, or your runs.",
        topic="commands",
        everyday=True,
    ),
    "build": OwnCommand(
        group=HelpGroup.MACHINE,
        summary="Build engines for GPUs of other machines.",
        topic="tensorrt",
    ),
    "launch": OwnCommand(
        group=HelpGroup.MACHINE,
        summary="Print job files for Slurm, Kubernetes and Apptainer.",
        topic="clusters",
    ),
    "power": OwnCommand(
        group=HelpGroup.MACHINE,
        summary="List power sources, and why some cannot be read.",
        topic="reference/power",
    ),
    "meter": OwnCommand(
        group=HelpGroup.MACHINE,
        summary="Act as a power meter that --meter can read.",
        topic="power-meters",
    ),
    "help": OwnCommand(
        group=HelpGroup.MACHINE,
        summary="Show the help of a command, or a page of the documentation.",
        topic="commands",
    ),
    "new-workload": OwnCommand(
        group=HelpGroup.EXTEND,
        summary="Create a package for a workload of your own.",
        topic="your-workload",
        everyday=True,
    ),
    "import": OwnCommand(
        group=HelpGroup.EXTEND,
        summary="Convert external weights into a checkpoint.",
        topic="weights",
    ),
    "study": OwnCommand(
        group=HelpGroup.EXTEND,
        summary="Measure a study from another package.",
        topic="your-study",
    ),
}
"""By name, in the order in which each group lists them."""
