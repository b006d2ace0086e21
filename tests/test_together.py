"""A test of many checks makes them all, and names each that fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.together import apart, refused, together

Seen = list[tuple[Any, ...]]


@pytest.fixture(autouse=True)
def _not_apart() -> None:
    """Make these tests mean the same with ``--apart``: other files are imported by now."""
    apart(False)


def test_all_checks_are_made_and_those_that_fail_are_named() -> None:
    seen: Seen = []

    @together("x", [1, 2, 3], ids=["one", "two", "three"])
    @together(("y", "z"), [(1, "a"), (2, "b")])
    def check(x: int, y: int, z: str) -> None:
        seen.append((x, y, z))
        assert (x, y) != (3, 2), "an odd one"

    with pytest.raises(ExceptionGroup, match=r"1 of 3 checks fail, for three") as caught:
        check()
    assert len(seen) == 6
    inner = caught.value.exceptions[0]
    assert isinstance(inner, ExceptionGroup)
    assert "1 of 2 checks fail, for y=2, z='b'" in str(inner)
    assert "with y=2, z='b'" in inner.exceptions[0].__notes__
    assert "an odd one" in str(inner.exceptions[0])


def test_failures_of_pytest_s_own_count_too() -> None:
    @together("x", [1, 2])
    def check(x: int) -> None:
        with pytest.raises(ValueError, match="never"):
            pass

    with pytest.raises(ExceptionGroup, match=r"2 of 2 checks fail, for x=1; x=2"):
        check()


def test_a_test_is_skipped_if_all_its_checks_are() -> None:
    @together("x", [1, 2])
    def check(x: int) -> None:
        if x < limit:
            pytest.skip("too small")

    limit = 2
    check()
    limit = 3
    with pytest.raises(pytest.skip.Exception, match="all of 2 checks, x=1: too small"):
        check()


def test_pieces_are_all_checks() -> None:
    seen: Seen = []

    @together("x", range(7), pieces=3)
    def check(x: int) -> None:
        seen.append((x,))

    (mark,) = check.pytestmark
    name, parts = mark.args
    assert mark.kwargs["ids"] == ["x=0 ... x=1", "x=2 ... x=3", "x=4 ... x=6"]
    for part in parts:
        check(**{name: part})
    assert seen == [(x,) for x in range(7)]


def test_what_would_check_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="there are no values of x"):
        together("x", [])
    with pytest.raises(ValueError, match="cannot have marks of its own"):
        together("x", [pytest.param(1, marks=pytest.mark.slow)])


@pytest.mark.parametrize("is_apart", [False, True])
def test_some_checks_may_be_a_slow_test(is_apart: bool) -> None:
    apart(is_apart)
    seen: Seen = []

    def check(x: int, y: int, z: str = "") -> None:
        seen.append((x, y))

    values = [(1, 2), pytest.param(3, 4, id="b"), (5, 6), pytest.param(7, 8, id="d")]
    test: Any = together(("x", "y"), values, quick=1)(check)
    (mark,) = test.pytestmark
    slow = [value for value in mark.args[1] if getattr(value, "marks", ())]
    assert [[m.name for m in value.marks] for value in slow] == [["slow"]] * (3 if is_apart else 1)
    if not is_apart:
        test(part_x_y=mark.args[1][0])
        assert seen == [(1, 2)]
        test(part_x_y=slow[0].values[0])
        assert seen == [(1, 2), (3, 4), (5, 6), (7, 8)]
    else:
        assert [value.id for value in slow] == ["b", None, "d"]


def test_a_refusal_that_does_not_come_or_says_something_else_fails() -> None:
    refused({"nothing": (lambda: [][0], IndexError, "out of range")})()
    wrong = refused([(lambda: [][0], IndexError, "no elements"), (int, ValueError, "")])
    with pytest.raises(ExceptionGroup, match="2 of 2 checks fail"):
        wrong()
