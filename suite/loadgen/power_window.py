"""The time window of LoadGen's power measurement, from its detail log.

Source: mlcommons/inference, loadgen/loadgen.cc and utils.cc (DateTimeStringForPower): `power_begin`
is taken just before the first query is issued, `power_end` is that moment plus the time to the last
completion; UTC, month first, truncated to milliseconds.
"""

from datetime import UTC, datetime
from typing import Final

from suite.units import NS_PER_US

LOADGEN_POWER_TIME_FORMAT: Final = "%m-%d-%Y %H:%M:%S.%f"


def parse_power_time_ns(text: object) -> int | None:
    """Parse one of the two times to ns of UTC; None if it is invalid."""
    try:
        moment = datetime.strptime(str(text), LOADGEN_POWER_TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None
    passed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds) * NS_PER_US
