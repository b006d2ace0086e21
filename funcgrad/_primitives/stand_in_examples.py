"""Values that stand in for the inactive examples of a batch.

An operation may raise an error for values of inactive examples, return NaN, or never end. So they
get the values of an active example, which stands in for them; their results are never read.

>>> import numpy as np
>>> matrices = np.array([np.zeros((2, 2)), np.eye(2)])
>>> np.linalg.inv(with_stand_in(np.array([False, True]), matrices))[0]
array([[1., 0.],
       [0., 1.]])
"""

from __future__ import annotations

from funcgrad._core.specs import shape_of
from funcgrad._core.trace import Value
from funcgrad._primitives.indexing import gather
from funcgrad._primitives.reduction import position_of_max
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import reshape, unfollowed


def with_stand_in(mask: Value, values: Value) -> Value:
    """Replace examples outside a mask by the first example inside it.

    With an empty mask the first example is used. Stand-ins have no derivative.
    """
    if shape_of(mask) == (0,):
        return values
    return chosen_examples(mask, values, stand_in_of(mask, values))


def stand_in_of(mask: Value, values: Value) -> Value:
    """The first example inside a mask, or of all if it is empty. It has no derivative."""
    place = position_of_max(unfollowed(mask), axis=(0,), keepdims=False)
    return gather(unfollowed(values), place, axis=0, unique=True)


def chosen_examples(mask: Value, new: Value, old: Value) -> Value:
    """The new values where a mask of examples holds, and the old elsewhere."""
    shape = shape_of(mask)
    return where(reshape(mask, shape=(*shape, *(1,) * (len(shape_of(new)) - len(shape)))), new, old)
