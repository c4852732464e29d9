"""How prompts over a network are salted, in records and rules of compliance tests."""

from enum import StrEnum


class Salting(StrEnum):
    """What begins a prompt before its own text."""

    NONE = ""
    """Nothing: the prompt is as the workload has it."""
    SAMPLE = "sample"
    """Words that belong to the sample, so that a prompt comes again as it was."""
    REQUEST = "request"
    """Words that are drawn for each request, so that no prompt comes again."""
