"""What serves behind an address, and who says so: engine, version, precision, device and weights.

podium invents none of them. It knows what it ran itself; a server states some of what it runs; the
user states the rest (`[served]` in --system-file), or nobody does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

NOT_STATED: Final = "not stated"
"""In records, in the place of what nobody stated. It is equal to nothing, itself included."""


class Speaker(StrEnum):
    """Who says it."""

    PODIUM = "podium"
    """It ran here, under podium."""
    SERVER = "server"
    USER = "user"
    NOBODY = ""


SPEAKER_REMARKS: Final = {
    Speaker.SERVER: "the server's word",
    Speaker.USER: "the user's word",
}
"""What stands behind a value for a reader; nothing behind what podium ran itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One property, and who said it."""

    value: str = ""
    """Empty if nobody stated it."""
    said_by: Speaker = Speaker.NOBODY
    source: str = ""
    """Where it was read: owned_by, system_fingerprint, /version, --system-file."""

    @property
    def is_known(self) -> bool:
        """Return whether anybody stated it."""
        return bool(self.value)

    @property
    def text(self) -> str:
        """Return the value as records have it."""
        return self.value or NOT_STATED

    @property
    def remark(self) -> str:
        """Return who said it, for a reader; empty of what podium ran, and of what is unknown."""
        return SPEAKER_REMARKS.get(self.said_by, "") if self.value else ""

    def describe_statement(self) -> str:
        """Return the value with who said it."""
        return f"{self.text} ({self.remark})" if self.remark else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedIdentity:
    """What serves. The default is what is known of a server that states nothing."""

    engine: Statement = Statement()
    version: Statement = Statement()
    """Of the engine, or of the server if they are one program."""
    precision: Statement = Statement()
    device: Statement = Statement()
    weights: Statement = Statement()
    """The model as the server or the user names it: a name, a path or a hash."""

    @property
    def named_engine(self) -> Statement:
        """Return the engine with its version, if the same speaker states both."""
        engine, version = self.engine, self.version
        if not engine.value or not version.value or version.said_by is not engine.said_by:
            return engine
        return Statement(
            value=f"{engine.value} {version.value}", said_by=engine.said_by, source=engine.source
        )

    def list_statements(self) -> Mapping[str, Statement]:
        """Return the statements by the names of their properties."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def describe_properties(self) -> Mapping[str, str]:
        """Describe engine, precision and device, each with who states it; the version only if
        somebody does.
        """
        said = dict(self.list_statements())
        del said["weights"]
        if not self.version.is_known:
            del said["version"]
        return {name: each.describe_statement() for name, each in said.items()}

    def complete_with(self, other: "ServedIdentity") -> "ServedIdentity":
        """Return this identity with what only the other one states."""
        others = other.list_statements()
        return ServedIdentity(
            **{
                name: said if said.is_known else others[name]
                for name, said in self.list_statements().items()
            }
        )

    def describe_engine(self) -> str:
        """Name engine and precision as a heading has them: `torch fp32` of what podium ran,
        `vLLM 0.32.0 (the server's word), precision not stated` of others.
        """
        engine, precision = self.named_engine, self.precision
        if engine.is_known and precision.is_known and engine.remark == precision.remark:
            remark = f" ({engine.remark})" if engine.remark else ""
            return f"{engine.value} {precision.value}{remark}"
        if not engine.is_known and not precision.is_known:
            return f"engine and precision {NOT_STATED}"
        named = engine.describe_statement() if engine.is_known else f"engine {NOT_STATED}"
        format_ = (
            precision.describe_statement() if precision.is_known else f"precision {NOT_STATED}"
        )
        return f"{named}, {format_}"


def state_all(speaker: Speaker, source: str, **values: str) -> ServedIdentity:
    """Return an identity of which one speaker states some properties; empty values are not
    stated.
    """
    return ServedIdentity(
        **{
            name: Statement(value=value, said_by=speaker, source=source)
            for name, value in values.items()
            if value
        }
    )


def drop_unstated(text: str) -> str | None:
    """Return what a record states, or None where nobody stated it: what is unknown is equal to
    nothing.
    """
    return None if text == NOT_STATED else text
