"""What --power and --meter come to; apart from `selection`, since each LoadGen process imports it,
and not the registry.
"""

from dataclasses import dataclass

from harness.machine.telemetry.sampled import SourceOpening


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPower:
    """The power sources of a run."""

    openings: tuple[SourceOpening, ...] = ()
    linger_s: float = 0.0
    """Seconds after the run until the sampler may end."""
    requested: bool = False
    """Whether the user named a source or a meter, so that a run without it is not what was asked
    for.
    """
