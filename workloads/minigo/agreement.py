"""Whether two answers to one position may come from one model; no framework, since the judge runs
it.

Sums of floats depend on the size of the batch: shares and values differ in their last digits, and
where two moves are as good, so does the best.
"""

from typing import Final

from workloads.minigo.scoring import unpack_position_answer

# house rule: of a share of the policy and of the value; INT8 by two batch sizes stays within a
# tenth of it
MAX_ANSWER_DIFFERENCE: Final = 0.05


def agree(first: bytes, second: bytes) -> bool:
    """Compare shares and values; what is no answer agrees with nothing."""
    one, other = unpack_position_answer(first), unpack_position_answer(second)
    if one is None or other is None or len(one.policy) != len(other.policy):
        return False
    return (
        max(
            abs(left - right)
            for left, right in zip(
                (*one.policy, one.value), (*other.policy, other.value), strict=True
            )
        )
        <= MAX_ANSWER_DIFFERENCE
    )
