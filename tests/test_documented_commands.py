"""Every `podium ...` and `make ...` of the pages is one that podium's own parser takes, with names
and settings that there are; nothing is run.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest
from documented_pages import PAGES, ROOT, SHELL, texts

from compliance.rules import load_rules as rules
from harness.commands.prompt_options import is_server_address
from suite import registry
from suite.cli import group
from suite.errors import PodiumError
from suite.rounds import HyperValue, Profile
from suite.rounds.legality import check_hyperparameter_constraints, check_served_settings
from suite.rounds.settings import collect_workload_settings, read_chosen_settings, resolve_settings
from suite.terms import AUTOMATIC_ENGINE, Division

COMMAND: Final = re.compile(
    r"(?:- run: |- |\$ )?(?:\.venv/bin/)?(podium|make) (.*)|torchrun .*(-m harness) (.*)", re.DOTALL
)
PLACE: Final = re.compile(r"<[^>]*>|\bN\b")
"""What a reader puts something for: `<bundle>`, a number."""
WORKLOAD: Final = "WORKLOAD"
OF_ANOTHER_PACKAGE: Final = frozenset({"rings", "moons", "openvino"})
"""A workload and an engine that the guides bring themselves."""
NAMED: Final = {
    "engine": registry.ENGINE_GROUP,
    "framework": registry.ENGINE_GROUP,
    "input": registry.INPUT_GROUP,
}


def commands(page: str) -> Iterator[tuple[str, ...]]:
    """The commands of a page as words, `podium` or `make` first; a command that is only named
    (`podium run`) has no more words than that.
    """
    for text in texts(page):
        if match := COMMAND.fullmatch(text.strip()):
            words = shlex.split(PLACE.sub("1", match[2] or match[4]), comments=True)
            end = next((place for place, word in enumerate(words) if word in SHELL), len(words))
            yield ("make" if match[1] == "make" else "podium", *words[:end])


FOUND: Final = [
    (page, words) for page in PAGES for words in dict.fromkeys(commands(page.read_text("utf-8")))
]


def parsed(words: tuple[str, ...]) -> click.Context:
    """What click makes of a command; click.ClickException where it is wrong."""
    command = group.get_command(click.Context(group), words[0])
    assert command is not None, words[0]
    if (
        isinstance(command, click.Group) and len(words) > 1 and not words[1].startswith("-")
    ):  # a group takes any words, its commands do not
        inner = command.get_command(click.Context(command), words[1])
        assert inner is not None, words[:2]
        return inner.make_context(words[1], list(words[2:]))
    return command.make_context(words[0], list(words[1:]))


def list_subcommands(name: str) -> dict[str, click.Command]:
    """The commands of a group, by name; none of any other command."""
    command = group.get_command(click.Context(group), name)
    return dict(command.commands) if isinstance(command, click.Group) else {}


def check_settings(name: str, context: click.Context) -> None:
    """Hold a command about a workload against the round; PodiumError or AssertionError for what
    there is not, or may not be.
    """
    given = context.params
    round, profile = registry.load_round(), Profile(given["profile"])
    row = round.benchmark(name)
    row.check_data(name, profile, given["data"])
    chosen = read_chosen_settings(
        collect_workload_settings(round, row), given["config"], given["assignments"]
    )
    trains, serves = (
        context.command.name in ("train", "run"),
        context.command.name
        in (
            "infer",
            "run",
            "precision",
        ),
    )
    if trains and row.training[profile].division is Division.CLOSED:
        assert not list(
            check_hyperparameter_constraints(
                row.training[profile].constraints, resolve_settings(round, name, profile, chosen)
            )
        )
        needed = {
            constraint.key for constraint in row.training[profile].constraints if constraint.none_of
        }
        assert needed <= chosen.keys(), f"{name} in {profile} needs {needed}"
    if serves and row.inference[profile].division is Division.CLOSED:
        assert not list(
            check_served_settings(
                round, name, profile, resolve_settings(round, name, profile, chosen, serving=True)
            )
        )


def check_names(context: click.Context) -> None:
    """Engines, frameworks, inputs, rounds, rules and workloads are ones that there are."""
    for option, kind in NAMED.items():
        value = context.params.get(option)
        known = {*registry.map_entry_points(kind), AUTOMATIC_ENGINE}
        assert value is None or value in known | OF_ANOTHER_PACKAGE, value
    engines = {*registry.map_entry_points(registry.ENGINE_GROUP), AUTOMATIC_ENGINE}
    assert set(context.params.get("engines") or ()) <= engines
    assert (
        set(context.params.get("networks") or ())
        <= registry.map_entry_points(registry.NETWORK_GROUP).keys()
    )
    name = context.params.get("round_name")
    assert name is None or name in registry.list_round_names(), name
    if context.command.name == "explain" and context.params["rule"] != "RULE":
        assert context.params["rule"] in rules()


def check(words: tuple[str, ...]) -> None:
    """Parse a command of podium's, and hold what it says against the round."""
    if words[0].startswith("-"):
        known = group.get_params(click.Context(group))
        assert words[0] in {option for parameter in known for option in parameter.opts}
        return
    if len(words) == 1 or "..." in words:  # a command that is named, not written out
        assert words[0] in group.list_commands(click.Context(group))
        return
    if len(words) == 2 and words[1] in list_subcommands(words[0]):
        return
    try:
        context = parsed(words)
    except click.exceptions.Exit as ended:  # by an option that needs no other: `--example`
        assert ended.exit_code == 0
        return
    check_names(context)
    workload = context.params.get("workload") or next(
        iter(context.params.get("workloads") or ()), None
    )
    if workload in {None, "all", WORKLOAD} | OF_ANOTHER_PACKAGE:
        return
    if is_server_address(workload):
        chosen = context.params["assignments"]
        read_chosen_settings(registry.load_round().settings, None, chosen)
        assert context.params["prompts"]
        return
    if {"assignments", "data"} <= context.params.keys():
        check_settings(workload, context)
    elif context.params.get("round_name") is None:
        registry.load_round().benchmark(workload)


@pytest.mark.parametrize(
    ("page", "words"),
    FOUND,
    ids=lambda each: (
        each.relative_to(ROOT).as_posix() if isinstance(each, Path) else " ".join(each)
    ),
)
def test_a_command_of_the_pages_is_one(page: Path, words: tuple[str, ...]) -> None:
    """A reader types what stands there: a misspelt option, or a setting that is refused, costs an
    evening.
    """
    if words[0] == "make":
        text = (ROOT / "Makefile").read_text("utf-8")
        known = {
            *re.findall(r"^([a-z]+):", text, re.MULTILINE),
            *re.findall(r"^([A-Z_]+) \?=", text, re.MULTILINE),
        }
        assert {word.partition("=")[0] for word in words[1:]} <= known
    else:
        check(words[1:])


def options(page: str) -> Iterator[tuple[str, ...]]:
    """What stands on a page as options alone: `--engine tensorflow`, `--resume`."""
    yield from (
        tuple(shlex.split(PLACE.sub("1", text))) for text in texts(page) if text.startswith("--")
    )


OPTIONS: Final = [
    (page, words) for page in PAGES for words in dict.fromkeys(options(page.read_text("utf-8")))
]


def every_command() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command, also those of a group, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        if command := group.get_command(context, name):
            yield (str(command.name),), command
            if isinstance(command, click.Group) and name != "meter":  # whose --profile is a file
                for inner, found in command.commands.items():
                    yield (str(command.name), inner), found


def taken(words: tuple[str, ...], workload: str) -> bool:
    """Tell whether some command has the option, or takes options with these values."""
    context = click.Context(group)
    for called, command in every_command():
        if len(called) > 1 and words[0] == "--set":  # a setting is one of a workload
            continue
        if len(words) == 1 and any(
            words[0] in parameter.opts for parameter in command.get_params(context)
        ):
            return True
        for arguments in ((workload,), ())[: len(called)]:
            try:
                if len(words) > 1:
                    check((*called, *arguments, *words))
                    return True
            except click.MissingParameter:  # raised once all that is given has been parsed
                if called[0] == "submit":
                    return True
            except (click.ClickException, PodiumError, AssertionError):
                continue
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "words"),
    OPTIONS,
    ids=lambda each: (
        each.relative_to(ROOT).as_posix() if isinstance(each, Path) else " ".join(each)
    ),
)
def test_options_of_the_pages_are_some_command_s(page: Path, words: tuple[str, ...]) -> None:
    """On a workload's page they are about that workload; a profile that needs data has them named
    elsewhere.
    """
    workload = page.parent.name if page.parent.parent.name == "workloads" else "resnet50"
    assert taken(words, workload) or taken((*words, "--data", "DIR"), workload)


@pytest.mark.parametrize(
    "text",
    ["--resumed", "--engine tensorfow", "--set answer.class=5", "--format txt", "--profile small"],
)
def test_options_that_nobody_takes_are_found(text: str) -> None:
    """As they would stand on ResNet-50's page."""
    (words,) = options(f"Type `{text}`.")
    assert not taken(words, "resnet50")


def test_the_pages_have_commands() -> None:
    """Each page of a workload, and enough of them all: a pattern that finds nothing would pass."""
    assert len(FOUND) > 50 and len(OPTIONS) > 20
    for page in PAGES:
        assert (
            page.parent.parent.name != "workloads" or sum(found == page for found, _ in FOUND) > 1
        ), page


@pytest.mark.parametrize(
    "text",
    [
        "podium train ssd --profil full",
        "podium trian ssd",
        "podium train sdd --profile smoke",
        "podium train ssd --profile fall",
        "podium train ssd --profile full",
        "podium train ssd --profile full --data /coco",
        "podium train ssd --profile full --data /coco --set model.start_weights=random",
        (
            "podium train ssd --profile full --data /coco --set model.configuration=1200 --set"
            " model.start_weights=w.pth"
        ),
        "podium infer ssd --profile full --data /coco --set model.configuration=1200",
        "podium train ssd --set model.configuration=1201",
        "podium train ssd --set model.config=300",
        "podium infer ssd --engine onnxrunntime",
        "podium check results --round training-v0.8",
        "podium explain training.targets",
        "podium check results --format txt",
        "podium pack results",
        "podium verify one two",
    ],
)
def test_what_is_no_command_is_found(text: str) -> None:
    """As it would stand on a page, in a block or between backticks."""
    for page in (f"```\n{text}    # as here\n```\n", f"Type `{text}`."):
        (words,) = commands(page)
        with pytest.raises((click.ClickException, PodiumError, AssertionError, SystemExit)):
            check(words[1:])


def test_a_number_among_choices_is_taken() -> None:
    """`1200` was unknown where '1200' was meant."""
    chosen: dict[str, HyperValue] = read_chosen_settings(
        collect_workload_settings(registry.load_round(), registry.load_round().benchmark("ssd")),
        None,
        ["model.configuration=1200"],
    )
    assert chosen == {"model.configuration": "1200"}
    check(
        ("run", "ssd", "--profile", "quick", "--data", "/coco", "--set", "model.configuration=1200")
    )
