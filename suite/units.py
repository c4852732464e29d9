"""Factors between units, each written once; all are exact integers."""

from typing import Final

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
NS_PER_MINUTE: Final = 60_000_000_000
US_PER_MS: Final = 1_000
US_PER_S: Final = 1_000_000
MS_PER_S: Final = 1_000
MS_PER_MINUTE: Final = 60_000
S_PER_MINUTE: Final = 60
S_PER_HOUR: Final = 3_600
MINUTES_PER_HOUR: Final = 60
UW_PER_MW: Final = 1_000
UW_PER_W: Final = 1_000_000
MW_PER_W: Final = 1_000
W_PER_KW: Final = 1_000
J_PER_KJ: Final = 1_000
MIB: Final = 2**20
GIB: Final = 2**30
