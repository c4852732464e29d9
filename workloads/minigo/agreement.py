"""Decides whether two answers to one position can come from one model; imports no framework, since
the judge runs it.

Floating-point sums depend on the batch size: shares and values differ in their last digits, and if
two moves are equally good, so does the best one.
"""

from typing import Final

from workloads.minigo.scoring import unpack_position_answer

# house rule: largest difference of a policy's share, and of a value; INT8 with two batch sizes
# stays within a tenth of it
MAX_ANSWER_DIFFERENCE: Final = 0.05


def agree(first: bytes, second: bytes) -> bool:
    """Compare shares and values; an invalid answer agrees with nothing."""
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
