"""Every public callable of NumPy is here under its name, or excluded with a reason."""

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import MissingAttributeError
from funcgrad.numpy.excluded import EXCLUDED, reason_for
from tests.numpy.coverage import BEGIN, PAGE, table, without_a_word


def test_every_callable_of_numpy_is_here_or_excluded_with_a_reason() -> None:
    assert without_a_word() == []


def test_a_function_without_a_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "quaternion", abs, raising=False)
    assert without_a_word() == ["quaternion"]


def test_nothing_is_both() -> None:
    assert [name for name in EXCLUDED if name in fnp.__all__] == []


@pytest.mark.parametrize("name", sorted(EXCLUDED))
def test_an_excluded_name_says_why(name: str) -> None:
    with pytest.raises(MissingAttributeError) as caught:
        getattr(fnp, name)
    assert str(caught.value).startswith(f"funcgrad.numpy has no {name}: {reason_for(name)}")
    assert not hasattr(fnp, name)


def test_a_name_that_numpy_has_not_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'funcgrad\.numpy' has no attribute 'sine'"):
        fnp.sine  # noqa: B018


def test_the_page_is_up_to_date() -> None:
    # If this fails: python -m tests.numpy.coverage
    assert PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].strip() == table().strip()


def test_names_that_the_page_recommends_exist() -> None:
    for reason in EXCLUDED.values():
        for word in reason.replace("(", " ").replace(",", " ").split():
            if word.startswith("fnp."):
                assert hasattr(fnp, word.removeprefix("fnp.").rstrip(")")), word
    assert fg.tensor([1.0]).at is not None
