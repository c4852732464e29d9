"""Options that packages add to podium's commands, by entry points of the group `podium.options`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from suite import plugins, registry
from suite.cli import RunOptions
from suite.console.options import OptionDecorator
from suite.contracts import Misfit
from suite.errors import MissingError

EXTENSIBLE_COMMAND: Final = "infer"
"""The command that takes options of packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedOptions:
    """What such an entry point names. It is called `COMMAND.OPTION`, after the command and the
    first of the options.
    """

    options: tuple[OptionDecorator, ...]
    """As `click.option` returns them."""
    resolve: Callable[[RunOptions, dict[str, Any]], RunOptions]
    """Function of the options of a run and the command's values: takes its own values out of them
    and returns the options with what they mean; RequestError if they do not fit.
    """


def load_added_options(name: str) -> AddedOptions:
    """Return what an entry point adds; MissingError if it cannot be loaded or added, or does not
    fit.
    """
    added = registry.load_record(AddedOptions, registry.OPTION_GROUP, "option", name)
    point = registry.map_entry_points(registry.OPTION_GROUP)[name]
    if name.partition(".")[0] != EXTENSIBLE_COMMAND:
        misfit = Misfit(part="name", expected=f"{EXTENSIBLE_COMMAND}.OPTION", found=f"'{name}'")
        plugins.require_fit(point, "option", [misfit])
    registry.load_from_package(point, "option", name, partial(add_options, added, lambda: None))
    return added


def add_options(added: AddedOptions, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with options, which `podium COMMAND --help` shows in their order."""
    for option in reversed(added.options):
        function = option(function)
    return function


def iterate_added_options(command: str) -> Iterator[AddedOptions]:
    """Yield what packages add to a command, by name."""
    names = [
        name
        for name in registry.map_entry_points(registry.OPTION_GROUP)
        if name.partition(".")[0] == command
    ]
    for name in names:
        try:
            yield load_added_options(name)
        except MissingError as error:
            point = registry.map_entry_points(registry.OPTION_GROUP)[name]
            if plugins.is_own_entry_point(point):
                raise
            plugins.warn_about_package(point, str(error))


def add_package_options(command: str) -> OptionDecorator:
    """Return what adds the options of packages to a command."""

    def add_to_command(function: Callable[..., Any]) -> Callable[..., Any]:
        for added in iterate_added_options(command):
            function = add_options(added, function)
        return function

    return add_to_command


def resolve_package_options(
    command: str, options: RunOptions, values: dict[str, Any]
) -> RunOptions:
    """Take the values of packages' options out of a command's values; return the options of the run
    with what they mean.
    """
    for added in iterate_added_options(command):
        options = added.resolve(options, values)
    return options
