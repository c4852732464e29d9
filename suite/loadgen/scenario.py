"""LoadGen's four scenarios, each with three spellings: command line, folder, log."""

from enum import StrEnum

from suite.errors import build_unknown_name_error


class Scenario(StrEnum):
    """A LoadGen scenario; the value is the spelling on the command line."""

    SINGLE_STREAM = "single-stream"
    MULTI_STREAM = "multi-stream"
    SERVER = "server"
    OFFLINE = "offline"

    @property
    def folder(self) -> str:
        """The folder of the results tree, as MLCommons' submission rules name it."""
        return self.value.title().replace("-", "")

    @property
    def label(self) -> str:
        """The name in `requested_scenario` and in the summary: LoadGen's ToString(TestScenario)."""
        return self.folder


def parse_scenarios(text: str) -> tuple[Scenario, ...]:
    """Parse one scenario, or `all`, as typed by a user; RequestError names the nearest."""
    if text == "all":
        return tuple(Scenario)
    folded = text.casefold().replace("_", "-")
    for scenario in Scenario:
        if folded in (scenario.value, scenario.folder.casefold()):
            return (scenario,)
    raise build_unknown_name_error("scenario", text, [*Scenario, "all"])
