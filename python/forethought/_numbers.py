"""Whole numbers as callers may write them: Python's, NumPy's, anything with __index__; no bool, no float."""
import operator

from forethought._errors import InvalidArgument


def whole(value, what: str) -> int:
    """The number as int; a TypeError if it is none, an InvalidArgument if 64 bits do not hold it."""
    if isinstance(value, bool):
        raise TypeError(f"{what} wants int, not bool")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} wants int, not {type(value).__name__}") from None
    if not -2**63 <= number < 2**63:
        raise InvalidArgument(f"{what} is {number}, which is more than 64 bits hold")
    return number


def whole_list(values, what: str) -> list[int]:
    """A list of such numbers, `what` being one of them."""
    try:
        return [whole(v, what) for v in values]
    except TypeError:
        if hasattr(values, "__iter__"):
            raise
        raise TypeError(f"{what}: a list of int is wanted, not {type(values).__name__}") from None
