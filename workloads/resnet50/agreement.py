"""Whether two answers to one picture may come from one model; no framework, since the judge runs it.

Sums of floats depend on the size of the batch, and where two classes are nearly as likely, so does their order.
"""

from workloads.resnet50.scoring import classes


def agree(first: bytes, second: bytes) -> bool:
    """Compare classes: the first is the same, and more than half of the others are; what is no answer agrees with nothing."""
    one, other = classes(first), classes(second)
    if not one or len(one) != len(other) or one[0] != other[0]:
        return False
    return 2 * len(set(one[1:]) & set(other[1:])) > len(one) - 1 or len(one) == 1
