"""Decides whether two answers to one image can come from one model; imports no framework, since
the judge runs it.

Floating-point sums depend on the batch size, and where two classes are nearly equally likely, so
does their order.
"""

from workloads.resnet50.scoring import unpack_class_answer


def agree(first: bytes, second: bytes) -> bool:
    """Compare classes: the first must match, and more than half of the others; an invalid answer
    agrees with nothing.
    """
    one, other = unpack_class_answer(first), unpack_class_answer(second)
    if not one or len(one) != len(other) or one[0] != other[0]:
        return False
    return 2 * len(set(one[1:]) & set(other[1:])) > len(one) - 1 or len(one) == 1
