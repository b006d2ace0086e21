"""funcgrad has every public callable of NumPy, or excludes it with a reason."""

import inspect
from operator import attrgetter

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import MissingAttributeError
from funcgrad.numpy.excluded import EXCLUDED, reason_for
from tests.numpy.coverage import BEGIN, PAGE, table, without_a_word
from tests.together import together


def test_every_callable_of_numpy_is_here_or_excluded_with_a_reason() -> None:
    assert without_a_word() == []


def test_a_function_without_a_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "quaternion", abs, raising=False)
    assert without_a_word() == ["quaternion"]


# Parameters that tensors have no use for, or that NumPy has for itself.
WITHOUT_USE = frozenset(
    "casting einsum_call like order out overwrite_input signature subok writeable".split()
)
OTHERWISE_NAMED = frozenset(
    [("arange", "start_or_stop"), ("iinfo", "int_type"), ("array", "ndmax")]
    + [("linalg.tensordot", name) for name in ("x1", "x2")]
    # What NumPy has deprecated, and from 2.4 on has no more.
    + [("corrcoef", "bias"), ("corrcoef", "ddof"), ("reshape", "newshape")]
    + [
        (name, "interpolation")
        for name in ("nanpercentile", "nanquantile", "percentile", "quantile")
    ]
)


def lacking(name: str) -> list[str]:
    """The parameters of NumPy's function that ours of the same name lacks."""
    own, peer = attrgetter(name)(fnp), attrgetter(name)(np)
    try:
        theirs, ours = inspect.signature(peer).parameters, inspect.signature(own).parameters
    except ValueError:  # some of NumPy's versions hide it
        return []
    named = [p for p in theirs.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return [p.name for p in named if p.name not in ours and p.name not in WITHOUT_USE]


def functions_of_both() -> list[str]:
    names = list(fnp.__all__)
    for module in ("fft", "linalg", "lib.scimath", "lib.stride_tricks"):
        names += [f"{module}.{name}" for name in attrgetter(module)(fnp).__all__]
    found = []
    for name in names:
        try:
            peer = attrgetter(name)(np)
        except AttributeError:
            continue
        if inspect.isfunction(attrgetter(name)(fnp)) and not isinstance(peer, np.ufunc):
            found.append(name)
    return found


def test_functions_have_all_parameters_of_numpys() -> None:
    names = functions_of_both()
    assert len(names) > 200
    found = [(name, each) for name in names for each in lacking(name)]
    assert [each for each in found if each not in OTHERWISE_NAMED] == []


def test_nothing_is_both() -> None:
    assert [name for name in EXCLUDED if name in fnp.__all__] == []


@together("name", sorted(EXCLUDED))
def test_an_excluded_name_says_why(name: str) -> None:
    with pytest.raises(MissingAttributeError) as caught:
        getattr(fnp, name)
    assert str(caught.value).startswith(f"funcgrad.numpy has no {name}: {reason_for(name)}")
    assert not hasattr(fnp, name)


def test_a_name_that_numpy_has_not_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'funcgrad\.numpy' has no attribute 'sine'"):
        fnp.sine  # type: ignore[attr-defined]  # noqa: B018


def test_the_page_is_up_to_date() -> None:
    # If this fails: python -m tests.numpy.coverage
    assert PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].strip() == table().strip()


def test_names_that_the_page_recommends_exist() -> None:
    for reason in EXCLUDED.values():
        for word in reason.replace("(", " ").replace(",", " ").split():
            if word.startswith("fnp."):
                assert hasattr(fnp, word.removeprefix("fnp.").rstrip(")")), word
    assert fg.tensor([1.0]).at is not None
