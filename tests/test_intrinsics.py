"""Formulas say to the bit what operations evaluate, and say it in intrinsics alone.

The subjects are discovered; see ``tests/conformance.py``. Each check is shown to see what is wrong.
"""

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
from funcgrad import algebra, intrinsics
from funcgrad.algebra import body_of
from funcgrad.errors import FuncgradError
from funcgrad.extend import elementwise
from funcgrad.primitive import Primitive, Sample
from funcgrad.primitives import reduction, special_functions
from funcgrad.structure import UNEVEN, Elementwise, Structure
from tests.conformance import every_primitive, strangers

PRIMITIVES = (*every_primitive(), *strangers())  # those with one result


def formula_of(structure: Structure) -> Callable[..., Any] | None:
    return structure.formula if isinstance(structure, Elementwise) else None


def by_primitive(primitives: list[Primitive]) -> Any:
    assert primitives
    return pytest.mark.parametrize("primitive", primitives, ids=lambda p: p.name)


WITH_FORMULA = [each for each in PRIMITIVES if formula_of(each.structure)]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def bits(value: Any) -> Any:
    """Numbers by their bits, all NaN the same."""
    value = np.asarray(value)
    if value.dtype.kind == "c":
        return bits(value.real), bits(value.imag)
    return value.dtype, value.shape, np.where(value != value, value * 0, value).tobytes()


def cases(primitive: Primitive) -> Iterator[Sample]:
    """The samples, and the same numbers in every dtype that the operation is defined for."""
    for sample in primitive.samples():
        yield sample
        for char in "?bBhiefF":
            args = tuple([_in_dtype(arg, np.dtype(char)) for arg in sample.args])
            case = Sample(args, sample.params)
            try:
                primitive.evaluate(*case.args, **case.params)
            except (TypeError, ValueError, OverflowError):
                continue
            yield case


def _in_dtype(arg: Any, dtype: np.dtype[Any]) -> Any:
    array = np.asarray(arg)
    if array.dtype.kind not in "fc" or isinstance(arg, float | complex) or not array.size:
        return arg
    if dtype.kind in "iu":
        array = np.clip(np.nan_to_num(array.real), -100 if dtype.kind == "i" else 0, 100)
    return array.real.astype(dtype)[()] if dtype.kind != "c" else array.astype(dtype)[()]


# ------------------------------------------------------------------------------ NumPy


def assert_evaluated(primitive: Primitive) -> None:
    formula = formula_of(primitive.structure)
    assert formula is not None
    for case in cases(primitive):
        found = formula(intrinsics, *case.args, **case.params)
        assert bits(found) == bits(primitive.evaluate(*case.args, **case.params)), case


@by_primitive(WITH_FORMULA)
def test_formulas_have_the_bits_that_are_evaluated(primitive: Primitive) -> None:
    assert_evaluated(primitive)


def assert_known(primitive: Primitive) -> None:
    """A compiler can tell what an element is: by a ufunc, an intrinsic or a formula."""
    evaluate = primitive.evaluate
    known = [getattr(intrinsics, name) for name in intrinsics.__all__]
    assert isinstance(evaluate, np.ufunc) or evaluate in known or formula_of(primitive.structure), (
        primitive.name
    )


def of_scipy() -> list[Primitive]:
    """What SciPy evaluates, or NumPy as SciPy would: of that nobody has formulas."""
    modules = pkgutil.walk_packages(special_functions.__path__, f"{special_functions.__name__}.")
    return [each for module in modules for each in vars(import_module(module.name)).values()]


ELEMENTWISE = [each for each in PRIMITIVES if isinstance(each.structure, Elementwise)]


@by_primitive([each for each in ELEMENTWISE if each not in of_scipy() or each in WITH_FORMULA])
def test_of_every_elementwise_operation_it_is_known_what_an_element_is(
    primitive: Primitive,
) -> None:
    assert_known(primitive)


# ------------------------------------------------------------------------------ a compiler

OPERATORS = "add sub mul truediv neg lt le gt ge eq ne and or invert rshift lshift".split()
"""What values of an algebra have beside the intrinsics."""


@dataclass(frozen=True)
class Register:
    """A value of ``Machine``: a place of which nothing is known but the dtype."""

    machine: "Machine"
    place: int
    dtype: np.dtype[Any]

    __hash__ = None  # type: ignore[assignment]  # nobody may put values into sets


def _operator(name: str, swapped: bool) -> Any:
    def method(self: Register, *others: Any) -> Any:
        operands = (*others, self) if swapped else (self, *others)
        return self.machine.emit(f"__{name}__", operands)

    return method


for _name in OPERATORS:
    setattr(Register, f"__{_name}__", _operator(_name, swapped=False))
    if _name in {"add", "sub", "mul", "truediv", "and", "or"}:
        setattr(Register, f"__r{_name}__", _operator(_name, swapped=True))


class Machine:
    """An algebra that emits instructions, as a compiler does, and runs them element by element."""

    def __init__(self) -> None:
        self.code: list[tuple[str, tuple[Any, ...], int]] = []
        self.places = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in intrinsics.__all__:
            raise AttributeError(f"{name} is no intrinsic")
        return lambda *args: self.emit(name, args)

    def register(self, dtype: np.dtype[Any]) -> Register:
        self.places += 1
        return Register(self, self.places - 1, dtype)

    def emit(self, name: str, operands: tuple[Any, ...]) -> Any:
        """One more instruction; what NumPy makes of ones says of what dtype its result is."""
        examples = [np.ones(1, x.dtype) if type(x) is Register else x for x in operands]
        made = self.do(name, examples)
        several = type(made) is tuple
        registers = [self.register(each.dtype) for each in (made if several else (made,))]
        self.code.append((name, operands, registers[0].place))
        return tuple(registers) if several else registers[0]

    @staticmethod
    def do(name: str, operands: list[Any]) -> Any:
        if not name.startswith("__"):
            return getattr(intrinsics, name)(*operands)
        first = operands[0] if len(operands) == 1 else np.asarray(operands[0])[()]
        if type(operands[0]) in (int, float):  # weak, as it stands in the formula
            return getattr(operands[1], f"__r{name.strip('_')}__")(operands[0])
        return getattr(first, name)(*operands[1:])

    def run(self, *inputs: Any) -> list[Any]:
        places = list(inputs)
        for name, operands, place in self.code:
            values = [places[x.place] if type(x) is Register else x for x in operands]
            made = self.do(name, values)
            assert place == len(places)
            places += made if type(made) is tuple else [made]
        return places


def assert_compiled(primitive: Primitive) -> None:
    formula = formula_of(primitive.structure)
    assert formula is not None
    for case in cases(primitive):
        args = [np.asarray(arg) for arg in case.args]
        machine = Machine()
        out = formula(machine, *[machine.register(a.dtype) for a in args], **case.params)
        assert type(out) is Register  # and no number that was found while it was compiled
        expected = np.asarray(primitive.evaluate(*args, **case.params))
        assert out.dtype == expected.dtype
        every = np.broadcast_arrays(*args)
        flat = [np.array(a).reshape(-1) for a in every]
        found = machine.run(*flat)[out.place]
        if UNEVEN in primitive.traits:  # those differ by where in memory numbers lie
            assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5)
        else:
            assert bits(found.reshape(expected.shape)) == bits(expected), case


@by_primitive(WITH_FORMULA)
def test_formulas_compile_to_intrinsics_alone(primitive: Primitive) -> None:
    assert_compiled(primitive)


# ------------------------------------------------------------------------------ primitives


def test_algebras_have_the_same_intrinsics() -> None:
    assert {*intrinsics.__all__, "body_of"} == set(algebra.__all__)


def assert_body(primitive: Primitive) -> None:
    body = body_of(primitive)
    assert body is not None
    exact = primitive.body is None and UNEVEN not in primitive.traits
    for sample in primitive.samples():

        def f(*args: Any, sample: Sample = sample) -> Any:
            return body(*args, **sample.params)

        program = fg.program(f)(*sample.args)
        assert primitive.name not in [equation.operation.name for equation in program.equations]
        assert not program.guards
        found = np.asarray(program.evaluate(list(sample.args))[0])
        expected = np.asarray(primitive.evaluate(*sample.args, **sample.params))
        if exact:
            assert bits(found) == bits(expected), sample
        else:
            assert found.dtype == expected.dtype
            assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


WITH_BODY = [each for each in PRIMITIVES if body_of(each)]


@by_primitive(WITH_BODY)
def test_bodies_are_what_is_evaluated(primitive: Primitive) -> None:
    assert_body(primitive)


def test_whatever_has_a_formula_has_a_body_unless_it_is_an_intrinsic() -> None:
    without = {each.name for each in WITH_FORMULA} - {each.name for each in WITH_BODY}
    assert without == {"erf", "erfc"}


# ------------------------------------------------------------------------------ what is wrong


def wrong(formula: Callable[..., Any]) -> Primitive:
    """The absolute value, with a formula for something else."""
    x = np.array([0.0, -0.0, -1.0, 0.1, np.nan])
    return elementwise(
        "wrong", np.absolute, formula=formula, partials=None, samples=lambda: [Sample((x,))]
    )


def test_a_right_formula_passes() -> None:
    right = wrong(lambda m, x: m.absolute(x))
    for check in (assert_evaluated, assert_compiled, assert_body, assert_known):
        check(right)


@pytest.mark.parametrize(
    ("check", "formula"),
    [
        (assert_evaluated, lambda m, x: x),
        (assert_evaluated, lambda m, x: m.absolute(x) * (1 + 2.0**-52)),
        (assert_evaluated, lambda m, x: m.where(x < 0, -x, x)),  # -0.0
        (assert_evaluated, lambda m, x: m.astype(m.absolute(x), np.dtype(np.float32))),
        (assert_compiled, lambda m, x: np.absolute(x)),  # of NumPy, not of the algebra
        (assert_compiled, lambda m, x: m.fabs(x)),  # no intrinsic
        (assert_compiled, lambda m, x: x if x > 0 else -x),  # looks at a number
        (assert_compiled, lambda m, x: m.absolute(x).sum()),  # not elementwise
        (assert_body, lambda m, x: m.where(x < 0, -x, x)),
        (assert_body, lambda m, x: m.absolute(x) + 1e-300),
    ],
)
def test_a_wrong_formula_is_seen(
    check: Callable[[Primitive], None], formula: Callable[..., Any]
) -> None:
    with pytest.raises((AssertionError, AttributeError, TypeError, ValueError, FuncgradError)):
        check(wrong(formula))


def test_a_wrong_body_is_seen() -> None:
    assert_body(reduction.reduce_mean)
    with pytest.raises(AssertionError):
        assert_body(replace(reduction.reduce_mean, body=reduction.reduce_sum))
    with pytest.raises(AssertionError):  # which says nothing
        assert_body(replace(reduction.reduce_mean, body=reduction.reduce_mean))


def test_an_operation_without_a_formula_that_numpy_does_not_name_is_seen() -> None:
    with pytest.raises(AssertionError, match="wrong"):
        assert_known(
            replace(wrong(lambda m, x: x), evaluate=lambda x: x * x, structure=Elementwise())
        )


def test_to_say_neither_what_is_evaluated_nor_by_what_formula_is_an_error() -> None:
    with pytest.raises(TypeError, match="nothing says neither how it is evaluated"):
        elementwise("nothing", partials=None)
