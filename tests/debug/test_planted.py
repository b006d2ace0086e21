"""Every planted cause is named, by its operation and its line."""

from __future__ import annotations

import pytest

from funcgrad import debug
from funcgrad.errors import NonFiniteError
from tests.debug.planted import DERIVATIVES, VALUES, WAYS, Planted
from tests.together import together

CASES = [
    pytest.param(planted, way, id=f"{planted.name}-{way}")
    for planted in (*VALUES, *DERIVATIVES)
    for way in planted.ways
]


def told(cause: debug.Cause) -> set[tuple[str, str]]:
    """The operations, with their lines, that a cause names."""
    pairs = {(cause.operation, cause.line), (cause.derivative_of, cause.derivative_line)}
    return pairs.union(*map(told, cause.origins))


def innermost(cause: debug.Cause) -> debug.Cause:
    """The cause itself, or where its infinity is from."""
    return cause.origins[0] if cause.origins and cause.origins[0].operation else cause


@together(("planted", "way"), CASES)
def test_the_planted_cause_is_named(planted: Planted, way: str) -> None:
    function = debug.nans(WAYS[way](planted.function()))
    with pytest.raises(NonFiniteError) as raised:
        function(*planted.args)
    causes: tuple[debug.Cause, ...] = raised.value.causes
    assert causes, str(raised.value)
    assert (planted.operation, planted.line) in told(causes[0]), str(raised.value)
    message = str(raised.value)
    assert planted.line in message
    cause = innermost(causes[0])
    if planted.step is not None:
        assert cause.steps[-1:] == (planted.step,), message
        assert f"step {planted.step[1]} of {planted.step[0]}" in message
    if planted.example is not None:
        assert cause.examples == (planted.example,), message
        assert f"example {planted.example}" in message
    if "vmap" in way and planted.example is None:
        assert cause.examples[:1] == (1,), message
    if cause.derivative:
        word = f"in the {cause.derivative} of {cause.derivative_of}"
        assert f"{word} at {cause.derivative_line}" in message


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 80
