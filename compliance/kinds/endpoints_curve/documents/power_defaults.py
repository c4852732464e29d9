"""Estimate the rated power of components whose description states none, as MLCommons does.

Source: Endpoints rules, 4.5.2 and appendix D; endpoints-submission-cli 1.5, power_defaults.py.
"""

import re
from typing import Final

from suite.rounds.endpoints_curve import PowerRules

CPU_WORDS: Final = {
    "arm": re.compile(r"\b(grace|neoverse|arm|graviton|axion|ampere|altra|agi)\b"),
    "x86": re.compile(r"\b(xeon|epyc|intel|amd|x86|x86_64)\b"),
}
"""Architecture -> words in the names of its processors."""
CORE_COUNT_PATTERN: Final = re.compile(r"([0-9]{1,6})[\s-]*core")


def estimate_cpu_watts(rules: PowerRules, model: object, cores: float | None) -> float | None:
    """Return the rated power of a processor by its architecture and cores, as far as its name or
    the system's description says them; None if there is no estimate.
    """
    text = ""
    if isinstance(model, str):
        text = model.casefold()
    named = CORE_COUNT_PATTERN.search(text)
    count = float(named[1]) if cores is None and named else cores
    kind = next((kind for kind, words in CPU_WORDS.items() if words.search(text)), None)
    if kind is None or count is None:
        return None
    steps = rules.cpu_watts.get(kind, ())
    place = int(count > rules.cpu_cores.get(kind, 0))
    if place < len(steps):
        return steps[place]
    return None


def estimate_accelerator_watts(rules: PowerRules, model: object) -> float | None:
    """Return the rated power of an accelerator by its name; None if there is no estimate."""
    name = fold_part_name(model)
    return next((watts for known, watts in rules.accelerator_watts.items() if known in name), None)


def estimate_switch_watts(rules: PowerRules, model: object, cabling: object) -> float | None:
    """Return the typical power of a switch by its name and its cables; None if there is no
    estimate.
    """
    name = fold_part_name(model)
    known = next((each for part, each in rules.switch_watts.items() if part in name), None)
    if known and isinstance(cabling, str):
        return known.get(cabling)
    return None


def fold_part_name(model: object) -> str:
    """Return a component's name without punctuation and case; empty if it has none."""
    text = ""
    if isinstance(model, str):
        text = model.casefold()
    return "".join(each for each in text if each.isalnum())
