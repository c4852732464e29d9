"""What the sections of several kinds of studies share."""

from typing import Final

NO_RESULT_NOTE: Final = (
    "A study is not an MLPerf result and not part of a score; every figure comes from a LoadGen "
    "run that is kept."
)
