"""The help: commands in groups, pages by topic, options in two lengths, and no wrong statement."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner
from hatchling.builders.wheel import WheelBuilder

from suite import registry
from suite.cli import group
from suite.console import pages
from suite.console.command_help import HELP_ALL_KEY, FoldedCommand
from suite.console.command_table import OWN_COMMANDS, HelpGroup
from suite.errors import RequestError

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = (
    *("suite", "workloads", "harness", "compliance", "submissions", "podium", "extras"),
)
STATED_DEFAULT: Final = re.compile(r"default: ([^)\];]+)")
TOPIC_IN_TEXT: Final = re.compile(r"podium help ([a-z][a-z/-]*)")
LONG_COMMANDS: Final = ("infer", "run", "curve", "train", "peak")
CONTEXT: Final = click.Context(group, info_name="podium")


def load(name: str) -> click.Command:
    """Return a command as `podium` offers it."""
    command = group.get_command(CONTEXT, name)
    assert command is not None
    return command


def list_with_inner(name: str) -> list[tuple[str, click.Command]]:
    """Return a command and its subcommands."""
    command = load(name)
    inner = command.commands if isinstance(command, click.Group) else {}
    return [(name, command), *((f"{name} {each}", inner[each]) for each in inner)]


def run(*words: str) -> str:
    """Return the output of a command that succeeds."""
    result = CliRunner().invoke(group, list(words), prog_name="podium")
    assert result.exit_code == 0, result.output
    return result.output


def list_sections(text: str) -> dict[str, list[str]]:
    """Return the first words of the lines below each heading of a help."""
    sections: dict[str, list[str]] = {}
    words: list[str] = []
    for line in text.splitlines():
        if heading := re.fullmatch(r"(\S.*):", line):
            words = sections.setdefault(heading[1], [])
        elif entry := re.match(r"  (\S+)", line):
            words.append(entry[1])
    return sections


def test_each_own_command_has_a_summary_and_a_group() -> None:
    """`podium --help` called the own command `curve` "Command of another package."."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(project["entry-points"]["podium.commands"]) == set(OWN_COMMANDS)
    for name, own in OWN_COMMANDS.items():
        assert own.summary.endswith(".") and own.group in HelpGroup, name


def test_help_lists_the_everyday_commands_in_groups_and_loads_none() -> None:
    """33 commands stood in one flat list; `podium --help` must answer without a framework."""
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "podium", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    listed = list_sections(shown.stdout)
    headings = [heading for heading in listed if heading in set(HelpGroup)]
    assert headings == list(HelpGroup)
    everyday = {name for name, own in OWN_COMMANDS.items() if own.everyday}
    assert {name for heading in headings for name in listed[heading]} == everyday
    assert 8 <= len(everyday) <= 12
    assert "harness.commands" not in shown.stderr and "submissions.commands" not in shown.stderr


def test_help_all_lists_every_command_and_topic() -> None:
    told = run("help", "--all")
    listed = list_sections(told)
    for heading in HelpGroup:
        own = [name for name, each in OWN_COMMANDS.items() if each.group is heading]
        assert listed[heading] == own
    shelves = re.findall(r"^Topics, .*:\n((?:  .*\n)+)", told, re.MULTILINE)
    topics = re.findall(r"[a-z/-]+[a-z]", " ".join(shelves))
    assert topics == list(pages.list_topics())


def test_a_command_of_another_package_is_shown_with_its_first_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the short list by its package, since that loads nothing; one that is broken stays so."""
    points = dict(registry.map_entry_points(registry.COMMAND_GROUP))
    added = {"brew": "foreign_commands:brew", "spill": "foreign_commands_absent:spill"}
    for name, target in added.items():
        points[name] = EntryPoint(name=name, value=target, group=registry.COMMAND_GROUP)

    @click.command()
    def brew() -> None:
        """Brew tea. Then drink it."""

    module: Any = type(sys)("foreign_commands")
    module.brew = brew
    monkeypatch.setitem(sys.modules, "foreign_commands", module)
    monkeypatch.setattr(registry, "map_entry_points", lambda _: points)
    short, long = run("--help"), run("help", "--all")
    assert "brew   Command of foreign_commands." in short
    assert "brew   Brew tea." in long and "spill  Command of foreign_commands_absent." in long
    assert "--quiet" in run("brew", "--help")


def test_help_of_a_command_is_what_its_option_shows() -> None:
    assert run("help") == run("--help")
    assert run("help", "score") == run("score", "--help")


@pytest.mark.parametrize("name", OWN_COMMANDS)
def test_each_command_takes_quiet_and_verbose_and_names_its_page(name: str) -> None:
    """`podium train -v` and `podium score -q` ended with "no such option"."""
    for path, command in list_with_inner(name):
        names = [option for parameter in command.params for option in parameter.opts]
        assert [names.count(each) for each in ("-q", "--quiet", "-v", "--verbose")] == [1, 1, 1, 1]
        shown = command.get_help(click.Context(command, info_name=path, parent=CONTEXT))
        topic = re.search(r"More: podium help (\S+)", shown)
        assert topic and pages.find_topic(topic[1]) == topic[1], path


@pytest.mark.parametrize("name", OWN_COMMANDS)
def test_no_help_names_a_folder_that_an_installed_package_lacks(name: str) -> None:
    """`--meter` sent to a page below docs/."""
    for path, command in list_with_inner(name):
        context = click.Context(command, info_name=path, parent=CONTEXT)
        context.meta[HELP_ALL_KEY] = True
        without_topics = re.sub(r"podium help \S+", "", command.get_help(context))
        assert "docs/" not in without_topics and ".md" not in without_topics, path


def test_topics_in_messages_exist() -> None:
    """A message that sends to a page is tried like a link."""
    commands = set(OWN_COMMANDS)
    found = [
        (file, topic)
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
        for topic in TOPIC_IN_TEXT.findall(file.read_text("utf-8"))
    ]
    assert len(found) > 5
    assert [
        each for each in found if each[1] not in commands and not pages.find_topic(each[1])
    ] == []


@pytest.mark.parametrize("name", OWN_COMMANDS)
def test_a_default_in_the_help_is_the_real_one(name: str) -> None:
    """`precision --help` showed `auto` where all engines are compared, and `infer --help` the
    default of `train` beside its own.
    """
    for option, context in [
        (option, click.Context(command))
        for _, command in list_with_inner(name)
        for option in command.params
    ]:
        record = option.get_help_record(context)
        if not isinstance(option, click.Option) or option.is_flag or record is None:
            continue
        default, text = option.get_default(context), " ".join(record[1].split())
        stated = STATED_DEFAULT.findall(text)
        if isinstance(default, tuple):
            assert stated == [", ".join(map(str, default))], option.opts
        elif isinstance(default, str | int | float | Path) and default != "":
            assert stated == [str(default)], option.opts
        else:
            # the words say what stands for it: once at most, and never as the parser's own
            assert len(stated) <= 1 and "[default" not in text, option.opts


def test_a_served_precision_that_is_not_given_is_the_stated_one() -> None:
    for name in ("infer", "serve", "audit", "peak", "curve"):
        (option,) = (each for each in load(name).params if each.name == "precision")
        assert option.get_default(click.Context(load(name))) == "fp32"


@pytest.mark.parametrize(
    ("name", "tried"),
    [
        ("train", "take a few steps and one evaluation, then"),
        ("infer", "answer one query of each scenario, then"),
        ("run", "take a few steps, one evaluation and one query of each scenario, then"),
    ],
)
def test_a_dry_run_says_what_this_command_tries(name: str, tried: str) -> None:
    """`train` sends no query, and `infer` takes no step."""
    assert f"Check everything, {tried}" in " ".join(run(name, "--help").split())


@pytest.mark.parametrize("name", LONG_COMMANDS)
def test_a_long_command_shows_everyday_options_and_all_on_request(name: str) -> None:
    """`infer` has more than 30 options, most of them for one of its three uses."""
    command = load(name)
    assert isinstance(command, FoldedCommand)
    known = {parameter.name for parameter in command.params}
    assert command.everyday <= known
    short, long = run(name, "--help"), run(name, "--help-all")
    offered = {
        parameter.opts[0]
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
    }
    everyday = {option for option in offered if re.search(rf"^  {option}\b", short, re.MULTILINE)}
    assert offered <= set(re.findall(r"--?[a-z-]+", long))
    assert 10 <= len(everyday) <= 16 and len(everyday) < len(offered)
    more = re.search(rf"(\d+) more options: podium {name} --help-all", short)
    assert more and int(more[1]) == len(offered) - len(everyday)


def test_a_topic_prints_its_page() -> None:
    told = run("help", "your-data")
    page = (ROOT / "docs/guides/your-data.md").read_text("utf-8")
    assert told.splitlines()[0] == page.splitlines()[0]
    assert "](" not in re.sub(r"\]\(https?:", "", told) and "See also: `podium help " in told
    assert run("help", "guides/your-data") == run("help", "YOUR-DATA.md") == told


def test_a_topic_describes_its_pictures() -> None:
    """`On an idle machine the run prints:` was followed by nothing."""
    told = run("help", "first-result")
    assert "*Picture: podium run resnet50: trained, served in four scenarios," in told
    assert "![" not in told


def test_every_page_has_one_topic() -> None:
    topics = pages.list_topics()
    files = sorted((ROOT / "docs").rglob("*.md"))
    assert files and sorted(topics.values()) == files
    assert not set(topics) & set(OWN_COMMANDS), "a command's name shows its help"
    for topic in topics:
        assert pages.find_topic(topic) == topic


def test_a_page_named_like_another_is_found_by_its_shelf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("guides/signing.md", "reference/signing.md", "reference/sweep.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n")
    monkeypatch.setattr(pages, "find_shipped_folder", lambda *_: tmp_path)
    assert set(pages.list_topics()) == {"guides/signing", "reference/signing", "reference/sweep"}
    assert pages.find_topic("signing") is None
    assert pages.find_topic("sweep") == "reference/sweep"


@pytest.mark.parametrize(
    ("topic", "hint"),
    [
        ("trian", "did you mean 'train'"),
        ("first-reslut", "did you mean 'first-result'"),
        ("qqqqqq", "podium help --all lists"),
    ],
)
def test_an_unknown_topic_is_one_sentence_with_near_names(topic: str, hint: str) -> None:
    with pytest.raises(RequestError, match=f"no command and no topic '{topic}'; {hint}"):
        CliRunner().invoke(group, ["help", topic], catch_exceptions=False)


def test_the_wheel_has_the_pages_and_nothing_else_of_docs() -> None:
    """An installed package prints them; the figures of the site stay in the repository."""
    included = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    pages_of_docs = {
        f"suite/docs/{page.relative_to(ROOT / 'docs').as_posix()}"
        for page in (ROOT / "docs").rglob("*.md")
    }
    assert {each for each in included if "docs/" in each} == pages_of_docs
    assert "suite/cli.py" in included
