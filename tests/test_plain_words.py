"""No package uses a riddling turn of phrase more often than its limit, which only falls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plain_words import (
    AIMS,
    PATTERNS,
    Counts,
    above,
    counted,
    limits,
    lowered,
    packages,
    prose_of,
    turns_in,
    without_code,
)

PACKAGES = packages()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_keeps_to_its_limits(package: str) -> None:
    told = above(package, counted(PACKAGES[package]), limits())
    assert not told, f"{package}: {told}; python -m tests.plain_words --list {package}"


def test_limits_name_packages_and_turns_of_phrase() -> None:
    assert set(limits()) <= set(PACKAGES)
    assert all(set(row) <= set(AIMS) for row in limits().values())
    assert set(AIMS) == set(PATTERNS)


COUNTED = [
    ("that of, those of", "Its shape is that of ``x``."),
    ("that of, those of", "The parameters are those of ``norm``."),
    ("what, as a noun", "It returns what the function returns."),
    ("what, as a noun", "Say what it is: nobody knows."),
    ("is no, are no", "Truth values are no dates."),
    ("is no, are no", "It is no longer than before."),
    ("is no, are no", "Where there is no gradient."),
    ("of which, of whose", "A pair, of which the first is kept."),
    ("alone, for only", "NaN for that matrix alone."),
    ("in the place of", "Zeros in the place of values."),
    ("by way of", "Done by way of a table."),
    ("numbers, for values", "All the numbers are zero."),
    ("numbers, for values", "The numbers of the array."),
    ("differentiate in", "It has no derivative in ``k``."),
    ("differentiate in", "The arguments to differentiate in."),
    ("differentiate in", "Gradients in all arguments are made."),
]

PASSED_OVER = [
    "What does it return?",
    "The error says what to write.",
    "It is no longer valid.",
    "It leaves the other arguments alone.",
    "Complex numbers and random numbers; the numbers of rows and columns.",
    "Derivatives in every mode, in both modes, and the derivative in a direction.",
    "Differentiable in reverse mode.",
]


@pytest.mark.parametrize(("turn", "text"), COUNTED)
def test_turns_that_are_counted(turn: str, text: str) -> None:
    assert [name for name, _ in turns_in(text)] == [turn]


@pytest.mark.parametrize("text", PASSED_OVER)
def test_turns_that_are_passed_over(text: str) -> None:
    assert not list(turns_in(text))


DOCSTRING = """Say a thing.

Take what is there::

    what(code) is what

Examples
--------
>>> what = 1
>>> what
what

The shape is that of ``what``.
"""


def test_code_is_no_prose() -> None:
    assert [name for name, _ in turns_in(without_code(DOCSTRING))] == [
        "that of, those of",
        "what, as a noun",
    ]
    assert not list(turns_in(without_code("```pycon\n>>> what is what\n```\n")))


MODULE = '''
"""Tell what it does."""
NAME = "what"  # too short to be a sentence
f"a sentence of {NAME} {NAME} that tells what it is"
# A comment that is
# that of two lines.
x = 1  # noqa: E501
"""The docstring of what stands above."""
'''


def test_docstrings_messages_and_comments_are_prose(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(MODULE)
    turns = [name for prose in prose_of(file) for name, _ in turns_in(prose.text)]
    assert turns.count("what, as a noun") == 3
    assert turns.count("that of, those of") == 1


def test_a_limit_only_falls() -> None:
    few, many = Counts(1000), Counts(1000)
    few.turns["by way of"], many.turns["by way of"] = 2, 5
    start = lowered({"numpy": few}, None)
    assert start == {"numpy": {"by way of": 2}}
    assert lowered({"numpy": many}, start) == start
    assert not above("numpy", few, start)
    assert set(above("numpy", many, start)) == {"by way of"}
    assert lowered({"numpy": Counts(1000)}, start) == {}
