"""What the command says of both sides and of each one, as the record of a request."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from suite.ab.design import DEFAULT_ALPHA, DEFAULT_POWER
from suite.ab.sides import AbRequest, AbSide
from suite.cli import RunOptions
from suite.errors import MissingError, RequestError, build_unknown_name_error
from suite.files.layout import locate_absolutely
from suite.files.untrusted_files import parse_digits
from suite.loadgen.scenario import Scenario
from suite.rounds import HyperValue
from suite.rounds.settings import parse_setting_value
from suite.terms import AUTOMATIC_ENGINE

SIDE_KEYS: Final = ("engine", "precision", "threads", "device", "checkpoint", "framework")
"""Options of `podium infer` that a side may have of its own; all settings have a dot in their
name.
"""
ENDPOINT_KEY: Final = "endpoint"
VARIABLE_PREFIX: Final = "env."
SECRET_ENDS: Final = ("TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS")
"""How a word of a variable's name ends if its value opens a door: HF_TOKEN, PGPASSWORD; not
TOKENIZERS_PARALLELISM, MAX_TOKENS.
"""
ADDRESS_SIGN: Final = "://"
SERVING_KEYS: Final = ("engine", "checkpoint", ENDPOINT_KEY)
"""What only a side that serves has."""
SHARED_KEYS: Final = {
    "data": "both sides answer the same samples",
    "profile": "both sides are measured in one profile",
    "workload": "both sides serve one workload",
    "scenario": "both sides are measured in one scenario",
    "results": "both sides are kept in one results folder",
}
"""Key that no side may have of its own -> why."""
SEED_BITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedComparison:
    """The values of the command."""

    workload: str
    options: RunOptions
    a: tuple[str, ...]
    b: tuple[str, ...]
    a_python: Path | None
    b_python: Path | None
    scenario: str
    difference: float
    minutes: float
    seconds: float
    seed: int | None
    accuracy: bool
    training: bool
    checkpoint: Path | None
    prompts: Mapping[str, object] = field(default_factory=dict)
    """Option of own prompts -> value; empty without own prompts."""


def build_ab_request(asked: AskedComparison) -> AbRequest:
    """Resolve what is asked; RequestError for what no side can be, MissingError for an
    installation that is not there.
    """
    if asked.training:
        check_training(asked)
    sides = [
        build_side(asked, words, python)
        for words, python in ((asked.a, asked.a_python), (asked.b, asked.b_python))
    ]
    has_servers = [bool(each.endpoint) for each in sides]
    if has_servers[0] != has_servers[1]:
        raise RequestError(
            "one side is a server and the other is not: the network would be measured with one of"
            " them; serve both, or none"
        )
    check_scenario(asked, sides)
    scenario = Scenario.MULTI_STREAM.value if asked.training else asked.scenario
    has_own_prompts = bool(asked.prompts)
    if has_own_prompts and not has_servers[0]:
        raise RequestError("--prompts requires two servers: --a URL --b URL")
    return AbRequest(
        a=sides[0],
        b=sides[1],
        workload="" if has_own_prompts else asked.workload,
        profile=asked.options.profile.value,
        scenario=scenario,
        shared=tuple(list_shared_words(asked)),
        difference=asked.difference,
        alpha=DEFAULT_ALPHA,
        power=DEFAULT_POWER,
        seed=secrets.randbits(SEED_BITS) if asked.seed is None else asked.seed,
        minutes=asked.minutes,
        seconds=asked.seconds,
        accuracy=asked.accuracy and not has_own_prompts and not asked.training,
        training=asked.training,
    )


def check_scenario(asked: AskedComparison, sides: Sequence[AbSide]) -> None:
    """RequestError for Server without a rate, which both sides need to have in common."""
    rate = "server.target_qps"
    rates = {each.settings.get(rate) for each in sides}
    if asked.scenario == Scenario.SERVER and (None in rates or len(rates) > 1):
        raise RequestError(
            f"--scenario server compares latencies at one rate: name it with --set {rate}=RATE"
        )


def check_training(asked: AskedComparison) -> None:
    """RequestError for options that only serving has."""
    named = [word.partition("=")[0] for word in (*asked.a, *asked.b)]
    serving = [each for each in named if each in SERVING_KEYS or ADDRESS_SIGN in each]
    if asked.checkpoint is not None:
        serving.append("--checkpoint")
    if asked.scenario != Scenario.OFFLINE:
        serving.append("--scenario")
    if asked.prompts:
        serving.append("--prompts")
    if serving:
        raise RequestError(f"{serving[0]} belongs to serving; omit it, or --training")


def build_side(asked: AskedComparison, words: Sequence[str], python: Path | None) -> AbSide:
    """Resolve one side."""
    own: dict[str, str] = {}
    settings = dict(map(parse_setting_word, asked.options.assignments))
    environment: dict[str, str] = {}
    endpoint = ""
    for word in words:
        key, equals, value = word.partition("=")
        if ADDRESS_SIGN in key or key == ENDPOINT_KEY:
            endpoint = word if ADDRESS_SIGN in key else value
        elif not equals or not key:
            raise RequestError(f"'{word}': write KEY=VALUE, or the address of a server")
        elif key.startswith(VARIABLE_PREFIX):
            name = key.removeprefix(VARIABLE_PREFIX)
            check_variable_name(name)
            environment[name] = value
        elif key in SIDE_KEYS:
            own[key] = parse_side_option(key, value)
        elif key in SHARED_KEYS:
            raise RequestError(f"'{word}': {SHARED_KEYS[key]}; the sides may not be compared")
        elif "." in key:
            settings[key] = parse_setting_value(value)
        else:
            raise build_unknown_name_error("key of a side", key, (*SIDE_KEYS, ENDPOINT_KEY))
    if endpoint and own:
        raise RequestError(f"{next(iter(own))} belongs to the server {endpoint}; omit it")
    options = {} if endpoint else merge_options(asked, own)
    named, interpreter = tuple(words), ""
    if python is not None:
        named, interpreter = (*words, f"python={python}"), str(require_python(python))
    return AbSide(
        named=named,
        options=options,
        settings=settings,
        environment=environment,
        endpoint=endpoint,
        python=interpreter,
    )


def parse_side_option(key: str, value: str) -> str:
    """Return the value of a side's option as the record of its system states it; RequestError for
    one that is none, or that each run would choose anew.
    """
    if not value:
        raise RequestError(f"'{key}=': write {key}=VALUE")
    if key == "engine" and value == AUTOMATIC_ENGINE:
        raise RequestError(f"engine={value}: each run would choose one anew; name the engine")
    if key == "threads":
        number = parse_digits(value)
        if not number:
            raise RequestError(f"threads={value}: write a whole number above 0")
        return str(number)
    return value


def merge_options(asked: AskedComparison, own: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a side's processes: its own, and those of both for the others. Without
    a named engine, another framework is served by its own.
    """
    options = list_common_options(asked) | dict(own)
    has_default_engine = asked.options.engine == asked.options.framework
    if "engine" in options and "engine" not in own and has_default_engine:
        options["engine"] = options["framework"]
    if "checkpoint" in options:
        options["checkpoint"] = str(locate_absolutely(options["checkpoint"]))
    return options


def check_variable_name(name: str) -> None:
    """RequestError for a variable without a name, or with one of a secret, since the study records
    all values.
    """
    if not name:
        raise RequestError(f"'{VARIABLE_PREFIX}': write {VARIABLE_PREFIX}NAME=VALUE")
    if any(word.endswith(SECRET_ENDS) for word in name.upper().split("_")):
        raise RequestError(
            f"{VARIABLE_PREFIX}{name}: looks like a secret, and the study would record its value;"
            f" set {name} in this command's own environment, which both sides have"
        )


def list_common_options(asked: AskedComparison) -> dict[str, str]:
    """List the options that the command says of both sides."""
    options = asked.options
    found = {"device": options.device, "framework": options.framework}
    if not asked.training:
        found["engine"] = options.engine
    if options.precision is not None:
        found["precision"] = str(options.precision)
    if options.threads:
        found["threads"] = str(options.threads)
    if asked.checkpoint is not None:
        found["checkpoint"] = str(asked.checkpoint)
    return found


def parse_setting_word(word: str) -> tuple[str, HyperValue]:
    """Parse one KEY=VALUE of `--set`."""
    key, equals, value = word.partition("=")
    if not equals:
        raise RequestError(f"--set {word}: write KEY=VALUE")
    return key, parse_setting_value(value)


def require_python(home: Path) -> Path:
    """Return the interpreter of another installation: a virtual environment, or the interpreter
    itself.
    """
    path = locate_absolutely(home)
    found = path / "bin" / "python" if path.is_dir() else path
    if not found.is_file():
        raise MissingError(f"{home}: no Python there; name a virtual environment with podium in it")
    return found


def list_shared_words(asked: AskedComparison) -> list[str]:
    """List the words that the processes of both sides get: data, settings file, own prompts."""
    options = asked.options
    words: list[str] = []
    for name, path in (("data", options.data), ("config", options.config)):
        if path is not None:
            words += [f"--{name}", str(locate_absolutely(path))]
    for name, value in asked.prompts.items():
        if value is True:
            words.append(f"--{name}")
        elif value:
            words += [f"--{name}", str(value)]
    return words
