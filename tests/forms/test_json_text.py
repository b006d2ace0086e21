"""Programs as JSON and pickles: everything comes back, or an error names what cannot."""

import copy
import json
import math
import pickle
import struct
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec
from funcgrad._core.users_values import is_frozen
from funcgrad._forms.json_values import from_data, to_data
from funcgrad._primitives.elementwise import add, elementwise
from funcgrad._primitives.index_keys import Key
from funcgrad._programs.equation import Constant, Equation, Guard, exact_key
from funcgrad._transforms.flat_functions import CallPrimitive
from funcgrad.errors import DifferentiationError, ProgramError
from tests.conformance import every_primitive
from tests.subjects import SUBJECTS, assert_bits, wrong_cube
from tests.together import together
from tests.transforms.support import Layer, Point, numbers

# The numbers that the programs are tried at include infinities and NaN.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

F8 = np.dtype(np.float64)
REPOSITORY = Path(__file__).resolve().parents[2]


def again(program: fg.Program) -> fg.Program:
    """A program, written as text and read again."""
    return fg.Program.from_json(program.to_json())


def assert_round_trip(program: fg.Program) -> fg.Program:
    loaded = again(program)
    assert loaded == program
    assert hash(loaded) == hash(program)
    assert (loaded.name, loaded.names) == (program.name, program.names)
    assert [e.source for e in loaded.equations] == [e.source for e in program.equations]
    assert [g.source for g in loaded.guards] == [g.source for g in program.guards]
    assert loaded.to_text() == program.to_text()
    assert loaded.to_json() == program.to_json()
    return loaded


def of_constant(value: Any) -> fg.Program:
    """A program that returns a constant."""
    return fg.Program(
        "constant",
        (),
        (),
        (Constant(value),),
        (),
        (0,),
        arguments=pytrees.structure(((), {})),
        result=pytrees.structure(0),
    )


def is_public(primitive: Primitive) -> bool:
    """Whether a module below funcgrad._primitives exports it, or one below funcgrad.debug."""
    return any(
        primitive in [getattr(module, name) for name in getattr(module, "__all__", vars(module))]
        for path, module in list(sys.modules.items())
        if path.startswith(("funcgrad._primitives.", "funcgrad.debug."))
    )


# -------------------------------------------------------------------------------- round trips


PLAIN = {
    name: subject
    for name, subject in SUBJECTS.items()
    if not any(isinstance(e.operation, CallPrimitive) for e in subject.staged().equations)
}
CALLS = {name: subject for name, subject in SUBJECTS.items() if name not in PLAIN}


def test_there_are_subjects_of_both_kinds() -> None:
    assert len(PLAIN) > 20
    assert {"custom_jvp", "custom_vjp"} <= set(CALLS)


@together("name", PLAIN)
def test_a_program_comes_back_and_computes_the_same(name: str) -> None:
    subject = PLAIN[name]
    staged = subject.staged()
    loaded = assert_round_trip(staged)
    assert_bits(loaded(*subject.args), staged(*subject.args))


@pytest.mark.parametrize("name", CALLS)
def test_calls_come_back_without_their_rules(name: str) -> None:
    subject = CALLS[name]
    staged = subject.staged()
    loaded = again(staged)
    assert loaded.to_text() == staged.to_text()
    assert loaded.to_json() == staged.to_json()
    assert loaded.fingerprint() == staged.fingerprint()
    assert again(loaded) == loaded
    assert_bits(loaded(*subject.args), staged(*subject.args))
    assert_bits(fg.jit(loaded)(*subject.args), staged(*subject.args))
    batch = [np.stack([np.asarray(arg)] * 2) for arg in subject.args]
    if not staged.guards and "guard" not in staged.to_text():
        assert_bits(fg.vmap(loaded)(*batch), fg.vmap(staged)(*batch))


@together(
    "derived",
    [
        lambda f, x: fg.grad(f)(x),
        lambda f, x: fg.jvp(f, (x,), (x,)),
        lambda f, x: fg.linearize(f, x),
        lambda f, x: fg.jit(fg.grad(f))(x),
        lambda f, x: fg.grad(fg.jit(f))(x),
        lambda f, x: fg.grad(lambda y: fnp.sum(fg.vmap(f)(y)))(np.array([x, x])),
        lambda f, x: fg.grad(fg.checkpoint(f))(x),
    ],
)
def test_a_derivative_whose_rule_was_not_saved_raises(derived: Callable[..., Any]) -> None:
    loaded = again(fg.program(lambda x: wrong_cube(2.0 * x))(3.0))
    with pytest.raises(DifferentiationError, match="saved without its derivative rule"):
        derived(loaded, 3.0)


def test_a_checkpoint_is_saved_as_what_it_is() -> None:
    loaded = assert_round_trip(SUBJECTS["segment"].staged())
    assert loaded.equations[0].operation.name == "checkpoint"
    x = numbers(3)
    original = SUBJECTS["segment"].f
    assert_bits(fg.grad(loaded)(x), fg.grad(original)(x))
    batch = np.stack([x, -x])
    assert_bits(fg.vmap(fg.grad(loaded))(batch), fg.vmap(fg.grad(original))(batch))


PRIMITIVES = tuple(each for each in every_primitive() if is_public(each))


def test_every_primitive_is_public() -> None:
    assert {each.name for each in every_primitive()} == {each.name for each in PRIMITIVES}


def test_a_derivative_of_a_loaded_program_is_that_of_its_function() -> None:
    def f(x: Any) -> Any:
        return fnp.sum(fnp.sin(x) * x[::-1])

    loaded = again(fg.program(f)(numbers(4)))
    assert_bits(fg.grad(loaded)(numbers(4)), fg.grad(f)(numbers(4)))


def test_guards_hold_for_a_loaded_program() -> None:
    loaded = again(fg.program(lambda x: x if x > 0 else -x)(2.0))
    assert loaded(3.0).item() == 3.0
    with pytest.raises(fg.errors.GuardError, match="Stage the function again"):
        loaded(-3.0)


@together("value", [True, 3, -0.0, math.nan, -math.inf, 1j])
def test_every_guard_comes_back(value: Any) -> None:
    staged = replace(of_constant(1.0), guards=(Guard(0, "number", value, "here.py:1"),))
    (guard,) = assert_round_trip(staged).guards
    assert exact_key(guard.value) == exact_key(value)


# -------------------------------------------------------------------------------- constants


QUIET_NAN, NEGATIVE_NAN = (
    struct.unpack("<d", struct.pack("<Q", bits))[0]
    for bits in (0x7FF8000000000001, 0xFFF8000000000000)
)
SPECIAL = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, QUIET_NAN, NEGATIVE_NAN, 5e-324])
with np.errstate(all="ignore"):
    ARRAYS = {
        **{str(dtype): SPECIAL.astype(dtype) for dtype in map(np.dtype, "efdFD")},
        **{
            str(dtype): np.array([0, 1, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
            for dtype in map(np.dtype, "bhilBHIL")
        },
        "bool": np.array([[True, False]]),
        "complex": np.array([complex(-0.0, QUIET_NAN), complex(NEGATIVE_NAN, -0.0)]),
        "0-d": np.array(-0.0),
        "empty": np.zeros((3, 0, 2), np.float32),
        "strided": np.arange(12.0).reshape(3, 4)[::-1, ::2],
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "broadcast": np.broadcast_to(np.float16(2.5), (2, 3)),
    }
SCALARS: tuple[Any, ...] = (
    *(True, False, 0, -7, 2**62, 0.1, -0.0, math.inf, -math.inf, QUIET_NAN, NEGATIVE_NAN),
    *(1j, complex(-0.0, NEGATIVE_NAN), complex(math.inf, -0.0)),
    *(np.float16(0.1), np.float32(-0.0), np.float64(NEGATIVE_NAN), np.bool_(True), np.int8(-128)),
    *(np.uint64(2**64 - 1), np.complex64(complex(-0.0, math.inf)), np.complex128(QUIET_NAN)),
)


@together("name", ARRAYS)
def test_arrays_come_back_to_the_last_bit(name: str) -> None:
    array = ARRAYS[name]
    (constant,) = assert_round_trip(of_constant(array)).constants
    value = constant.value
    assert type(value) is np.ndarray
    assert (value.shape, value.dtype, value.tobytes()) == (
        array.shape,
        array.dtype,
        array.tobytes(),
    )
    assert value.flags.c_contiguous
    assert value.flags.aligned
    assert is_frozen(value)


@together("value", SCALARS, ids=lambda value: f"{type(value).__name__} {value}")
def test_numbers_come_back_as_weak_and_as_exact_as_they_were(value: Any) -> None:
    (constant,) = assert_round_trip(of_constant(value)).constants
    assert type(constant.value) is type(value)
    assert np.asarray(constant.value).tobytes() == np.asarray(value).tobytes()
    assert constant.spec == Constant(value).spec


def test_the_text_is_json_that_any_reader_takes() -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    text = of_constant(-math.inf).to_json()
    assert text.isascii()
    assert json.loads(text, parse_constant=refuse)["version"] == 1


# -------------------------------------------------------------------------------- static values


class Color(Enum):
    RED = 1
    CRIMSON = RED
    BLUE = "b"


class Config(NamedTuple):
    rate: float
    mode: str


STATICS: tuple[Any, ...] = (
    *(None, True, 1, 1.0, -0.0, 10**30, 5e-324, math.inf, -math.inf, math.nan, 1 - 0.0j),
    *("", "a'b\"\n\\ é \ud800 \x00", b"\x00\xff"),
    *((), (1, (2.0, ("x", None))), slice(None), slice(1, None, -2), (slice(1), ...), ...),
    *(Key((slice(1, 2), None, ..., -1)), Key(())),
    *(np.dtype("f"), np.dtype(bool), np.float32(0.1), np.int64(-3), np.bool_(False)),
    *(Color.RED, Color.BLUE, Config(0.1, "fast"), numbers, Color, int, Color.CRIMSON),
)


@together("value", STATICS, ids=lambda value: getattr(value, "__name__", ascii(value)))
def test_static_values_come_back_with_their_types(value: Any) -> None:
    data = to_data(value, "here")
    loaded = from_data(json.loads(json.dumps(data, allow_nan=False)), "there")
    assert type(loaded) is type(value)
    assert repr(loaded) == repr(value)
    if not isinstance(value, slice) and not (isinstance(value, tuple) and slice(1) in value):
        assert exact_key(loaded) == exact_key(value)


def _refused_statics() -> dict[str, Any]:
    class Inside(NamedTuple):
        x: int

    return {
        "type object": object(),
        "type list": [1],
        "type dtype": np.dtype(">f8"),
        "type frozenset": frozenset({1}),
        "_refused_statics.<locals>.<lambda>": lambda: None,
        "_refused_statics.<locals>.Inside": Inside(1),
    }


@together(("message", "value"), _refused_statics().items(), ids=_refused_statics())
def test_a_static_value_without_words_is_refused(message: str, value: Any) -> None:
    with pytest.raises(ProgramError) as caught:
        to_data(value, "the place")
    assert str(caught.value).startswith("the place: ")
    assert message.removeprefix("type ") in str(caught.value)


# -------------------------------------------------------------------------------- trees


class Pair:
    """A class with the protocol of pytrees."""

    def __init__(self, first: Any, second: Any, note: Any) -> None:
        self.parts, self.note = (first, second), note

    def __tree_flatten__(self) -> tuple[tuple[Any, ...], Any]:
        return self.parts, self.note

    @classmethod
    def __tree_unflatten__(cls, aux: Any, children: Any) -> "Pair":
        first, second = children
        return cls(first, second, aux)

    class Inner(NamedTuple):
        x: Any


@fg.pytree
class Checked:
    """A dataclass whose checks must not run on placeholders of leaves."""

    rate: Any
    mode: Any = fg.static_field(default=Color.RED)

    def __post_init__(self) -> None:
        assert self.rate > 0


TREES: MappingProxyType[str, Any] = MappingProxyType(
    {
        "leaf": 1.0,
        "nothing": (),
        "lists": [1.0, [2.0, ()], (3.0, None)],
        "dicts": {"b": 1.0, "a": {2: 2.0, -1: 3.0}, "c": {}},
        "odd keys": {1: 1.0, "a": 2.0, None: 3.0, (1, "b"): 4.0, Color.RED: 5.0},
        "ordered": OrderedDict([("z", 1.0), ("a", 2.0)]),
        "namedtuple": Point(1.0, Pair.Inner(2.0)),
        "dataclass": Layer(1.0, [2.0], name=("relu", 1)),
        "static types": (Layer(1.0, 2.0, name=1), Layer(1.0, 2.0, name=True)),
        "checked": Checked(1.0, mode=Color.BLUE),
        "function": Layer(1.0, 2.0, name=numbers),
        "protocol": Pair(1.0, {"a": 2.0}, ("note", 1.5)),
    }
)


@together("name", TREES)
def test_trees_come_back(name: str) -> None:
    tree = TREES[name]
    staged = fg.program(lambda x, *, key: (key, x))(tree, key=tree)
    loaded = assert_round_trip(staged)
    assert (loaded.arguments, loaded.result) == (staged.arguments, staged.result)
    assert repr(loaded.arguments) == repr(staged.arguments)
    assert_bits(loaded(tree, key=tree), staged(tree, key=tree))


def test_a_deep_tree_comes_back() -> None:
    tree: Any = 1.0
    for _ in range(5000):
        tree = [tree]
    assert again(fg.program(lambda x: x)(tree)).arguments.num_leaves == 1


def test_a_local_class_cannot_be_saved() -> None:
    class Here(NamedTuple):
        x: Any

    staged = fg.program(lambda p: p.x)(Here(1.0))
    with pytest.raises(ProgramError, match=r"arguments: .*Here of the module .*Define it there"):
        staged.to_json()


def test_a_local_static_function_cannot_be_saved() -> None:
    staged = fg.program(lambda p: p.weight)(Layer(1.0, 2.0, name=lambda: None))
    with pytest.raises(ProgramError, match=r"Layer\.name: .*<lambda> of the module"):
        staged.to_json()


# -------------------------------------------------------------------------------- what cannot be


def test_a_call_of_unknown_operations_cannot_be_saved() -> None:
    @fg.custom_vjp
    def solved(x: Any) -> Any:
        return np.linalg.inv(np.asarray(x))

    solved.defvjp(lambda x: (solved(x), None), lambda _, ct: (ct,))
    staged = fg.program(lambda x: solved(2.0 * x))(np.eye(2))
    (_, call) = staged.equations
    message = f"program <lambda>, equation 1 (custom_vjp solved) at {call.source}: this call runs"
    assert refusal(staged).startswith(message)
    with pytest.raises(ProgramError, match="operations are not known"):
        pickle.dumps(staged)
    inside = fg.program(fg.checkpoint(lambda x: solved(2.0 * x)))(np.eye(2))
    assert "equation 0 (checkpoint)" in refusal(inside)
    assert "inside, equation 1 (custom_vjp solved)" in refusal(inside)


def refusal(program: fg.Program) -> str:
    with pytest.raises(ProgramError) as caught:
        program.to_json()
    return str(caught.value)


def test_a_constant_of_a_transformation_around_cannot_be_saved() -> None:
    def outer(y: Any) -> Any:
        found.append(refusal(fg.program(lambda x: x * x + y)(3.0)))
        found.append(refusal(fg.program(lambda: y)()))
        return y

    found: list[str] = []
    fg.grad(outer)(2.0)
    line = outer.__code__.co_firstlineno + 1
    assert f"the constant a, which equation 1 (add) at {Path(__file__).name}:{line}" in found[0]
    assert "the constant a, which the result reads" in found[1]


def test_a_primitive_that_stands_in_no_module_cannot_be_saved() -> None:
    cube = elementwise("cube", lambda x: x**3, partials=(lambda y, x: 3 * x**2,))
    staged = replace(
        of_constant(2.0), equations=(Equation(cube, (0,), (), (Spec((), F8),), "mine.py:7"),)
    )
    with pytest.raises(
        ProgramError, match=r"equation 0 \(cube\) at mine.py:7: .* Define this one there"
    ):
        staged.to_json()


# -------------------------------------------------------------------------------- malformed text


def small() -> fg.Program:
    """Inputs 0 and 1, the constant 2, the results 3 and 4, and a guard."""

    def small(x: Any, y: Any) -> Any:
        total = fnp.sum(x * y + np.ones(2), axis=0)
        return {"total": total} if total > 0 else None

    return fg.program(small)(np.ones(2), np.float64(3.0))


TEXT = small().to_json()


@together("part", range(0, len(TEXT), len(TEXT) // 25))
def test_a_text_that_is_cut_off_is_refused(part: int) -> None:
    with pytest.raises(ProgramError, match="The text is not a program, or an incomplete one"):
        fg.Program.from_json(TEXT[:part])


def changed(change: Callable[[Any], None]) -> str:
    document = json.loads(TEXT)
    change(document)
    return json.dumps(document)


def setting(*path: Any) -> Callable[[Any], None]:
    """A change that sets the entry at a path to the last argument; ``...`` deletes the entry."""
    *steps, last, value = path

    def change(document: Any) -> None:
        for step in steps:
            document = document[step]
        if value is ...:
            del document[last]
        else:
            document[last] = value

    return change


MALFORMED = {
    "lacks 'format'": setting("format", "pickle"),
    "saved in version 2 of the format, and this funcgrad reads version 1": setting("version", 2),
    "The program: 'version' is '1', not a whole number": setting("version", "1"),
    "The program: 'name' is missing": setting("name", ...),
    "program small: 'names' has 1 in it, not a text": setting("names", ["x", 1]),
    "inputs do not fit": setting("names", ["x"]),
    "'float64' is not a dtype and shape": setting("inputs", 0, "float64"),
    "'object[2]' is not a dtype and shape": setting("inputs", 0, "object[2]"),
    "'float64[-2]' is not a dtype and shape": setting("inputs", 0, "float64[-2]"),
    "small: equation 0 (multiply)": setting("inputs", 0, "float64[3]"),
    "constant 0: float64[2] takes 16 bytes, and there are 3": setting(
        "constants", 0, "array", "AAAA"
    ),
    "constant 0: 'AAA?' is not base64": setting("constants", 0, "array", "AAA?"),
    "constant 0: 'spec' is missing": setting("constants", 0, "spec", ...),
    "constant 0: it has neither": setting("constants", 0, {}),
    "constant 0: 'text' is not a number": setting("constants", 0, {"number": "text"}),
    "byte of a boolean": setting("constants", 0, {"array": "AgE=", "spec": "bool[2]"}),
    "'constants' has None in it, not an object": setting("constants", 0, None),
    "constant 0: {'float': 'zz'} is not a valid float": setting(
        "constants", 0, {"number": {"float": "zz"}}
    ),
    "constant 0: {'float': '00'} is not a valid float": setting(
        "constants", 0, {"number": {"float": "00"}}
    ),
    "is not a valid complex": setting("constants", 0, {"number": {"complex": [1.0]}}),
    "its parts are not two floats": setting("constants", 0, {"number": {"complex": [1, 2]}}),
    "'float128' is not a dtype of tensors": setting(
        "constants", 0, {"number": {"scalar": "AAAA", "dtype": "float128"}}
    ),
    "equation 0 (elementwise.mul): funcgrad._primitives has no such": setting(
        "equations", 0, "operation", "elementwise.mul"
    ),
    "equation 1 (elementwise.add): 'operands' has 1.0": setting("equations", 1, "operands", [1.0]),
    "equation 1 (add) uses the variable 9": setting("equations", 1, "operands", [0, 9]),
    "equation 1 (add) of float64[2], float64[2] gives float64[2], not int8[2]": setting(
        "equations", 1, "results", ["int8[2]"]
    ),
    "equation 2 (reduction.reduce_sum), parameter axis: {'odd': 1} is not a static value": setting(
        "equations", 2, "params", "axis", {"odd": 1}
    ),
    "equation 2 (sum) is not defined for float64[2]": setting("equations", 2, "params", {}),
    "'source' is 3, not a text": setting("equations", 0, "source", 3),
    "'outputs' has True in it": setting("outputs", [True]),
    "output or guard 99 is not defined": setting("outputs", [99]),
    "guard 0: 'value' is missing": setting("guards", 0, "value", ...),
    "guard 0: 'text' is not a number": setting("guards", 0, "value", "text"),
    "arguments: the end of the tree is missing": setting("arguments", [{"tuple": 1}]),
    "arguments: there is more than one tree": setting("arguments", ["*", "*"]),
    "arguments: 'odd' is neither a leaf": setting("arguments", ["odd"]),
    "arguments: {'set': 2} is neither a leaf nor a container": setting("arguments", [{"set": 2}]),
    "arguments: 'tuple' is -1": setting("arguments", [{"tuple": -1}]),
    "a dict has a key twice": setting("result", [{"dict": ["a", "a"]}, "*", "*"]),
    "outputs do not fit the result's tree": setting("result", [None]),
}


@together(("message", "change"), MALFORMED.items(), ids=MALFORMED)
def test_a_changed_text_is_refused(message: str, change: Callable[[Any], None]) -> None:
    with pytest.raises(ProgramError) as caught:
        fg.Program.from_json(changed(change))
    assert message in str(caught.value)


class Halfway:
    def __tree_flatten__(self) -> Any:
        return (), None


CLASSES = {
    "'nothing' is not a module and a name": {"class": "nothing", "children": 0, "aux": None},
    "cannot be imported from the module no_such_module": {"class": "no_such_module:C"},
    "Nope cannot be imported from the module": {"record": f"{__name__}:Nope"},
    f"{__name__}:numbers is not a class": {"record": f"{__name__}:numbers"},
    "int has no __tree_flatten__": {"class": "builtins:int", "children": 0, "aux": None},
    "Halfway has no __tree_flatten__": {"class": f"{__name__}:Halfway", "children": 0, "aux": None},
    "Pair: 'aux' is missing": {"class": f"{__name__}:Pair", "children": 2},
    "'children' is missing": {"class": f"{__name__}:Pair", "aux": None},
    "'fields' is missing": {"record": f"{__name__}:Point"},
    "int: the class has other fields now": {"record": "builtins:int", "fields": [], "static": {}},
    "Point: the class had the fields ('x', 'z')": {
        "record": f"{__name__}:Point",
        "fields": ["x", "z"],
        "static": {},
    },
    "Checked: the class had the fields ('rate',) and the static fields ('speed',)": {
        "record": f"{__name__}:Checked",
        "fields": ["rate"],
        "static": {"speed": 1},
    },
    "Pair: the class now has its own": {"record": f"{__name__}:Pair", "fields": [], "static": {}},
    "an enum with a member 'GREEN'": {"dict": [{"enum": f"{__name__}:Color", "member": "GREEN"}]},
    "Config has 2 fields now, and had 1": {
        "dict": [{"namedtuple": f"{__name__}:Config", "items": [1]}]
    },
    "is not a named tuple": {"dict": [{"namedtuple": f"{__name__}:Color", "items": []}]},
}


@together(("message", "token"), CLASSES.items(), ids=CLASSES)
def test_classes_that_are_not_there_or_have_changed_are_refused(message: str, token: Any) -> None:
    with pytest.raises(ProgramError) as caught:
        fg.Program.from_json(changed(setting("result", [token, "*"])))
    assert message in str(caught.value)


@together(
    "name",
    [
        "",
        "add",
        "os.system",
        "elementwise.np",
        "elementwise.elementwise",
        "elementwise._none",
        "keys.np.sin",
        "elementwise.np.sin",
        "..errors.ProgramError",
        "elementwise.add.evaluate",
        "no_such_module.add",
    ],
)
def test_a_name_that_is_no_public_primitive_is_refused(name: str) -> None:
    loaded = set(sys.modules)
    with pytest.raises(ProgramError, match=r"funcgrad._primitives has no such primitive"):
        fg.Program.from_json(changed(setting("equations", 0, "operation", name)))
    assert {each for each in set(sys.modules) - loaded if not each.startswith("funcgrad.")} == set()


@pytest.mark.parametrize("name", ["os:system", "elementwise:add", "funcgrad.numpy:add", ":", "x:"])
def test_what_a_module_has_that_is_no_primitive_is_refused(name: str) -> None:
    with pytest.raises(ProgramError, match=r"not a primitive|cannot be imported|not a module"):
        fg.Program.from_json(changed(setting("equations", 0, "operation", name)))


def test_a_text_that_is_nested_without_end_is_refused() -> None:
    for text in ("[" * 100_000, changed(setting("constants", 0, {"number": _nested(900)}))):
        with pytest.raises(ProgramError, match=r"nested too deeply|is not a number"):
            fg.Program.from_json(text)


def _nested(depth: int) -> Any:
    data: Any = 0
    for _ in range(depth):
        data = [data]
    return data


JSON: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, True, -1, 0, 1, 2, 10**20, 0.5, "", "*", "float64[2]", [], {}, [[]]]),
    st.sampled_from(["elementwise.add", "weak int8[]", {"float": "x"}, {"key": [1]}, [{}], ["*"]]),
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything inside of a document."""
    inside = data.items() if isinstance(data, dict) else enumerate(data)
    found = []
    for step, part in inside:
        found.append((*path, step))
        if isinstance(part, (dict, list)):
            found += places(part, (*path, step))
    return found


@settings(max_examples=200)
@given(st.sampled_from(places(json.loads(TEXT))), JSON)
def test_no_change_leads_to_another_error_or_to_a_program_that_is_not_well_formed(
    path: tuple[Any, ...], value: Any
) -> None:
    try:
        loaded = fg.Program.from_json(changed(setting(*path, value)))
    except ProgramError:
        return
    assert loaded.verify() == again(loaded)


# -------------------------------------------------------------------------------- pickle, copy


@together("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol: int) -> None:
    staged = small()
    loaded = pickle.loads(pickle.dumps(staged, protocol))
    assert loaded == staged
    assert loaded.names == staged.names


def test_copies_are_the_program_itself_also_where_it_cannot_be_saved() -> None:
    staged = SUBJECTS["custom_jvp"].staged()
    assert copy.copy(staged) is staged
    assert copy.deepcopy([staged])[0] is staged


def run_python(text: str, given: bytes = b"", seed: str = "0") -> str:
    """The output of a script in a fresh process."""
    finished = subprocess.run(
        [sys.executable, "-c", text],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        input=given,
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY)},
    )
    return finished.stdout.decode().strip()


def test_another_process_loads_the_modules_of_primitives_that_it_needs() -> None:
    staged = fg.program(lambda x: fg.nn.softmax(fnp.sort(fnp.cumsum(x))))(np.ones(3))
    text = "import pickle, sys, numpy; print(pickle.load(sys.stdin.buffer)(numpy.ones(3)))"
    assert run_python(text, pickle.dumps(staged)) == str(staged(np.ones(3)))


# -------------------------------------------------------------------------------- fingerprints


FINGERPRINT = """
import numpy as np, funcgrad as fg, funcgrad.numpy as fnp
def f(params, x):
    y = fnp.einsum("ij,j->i", params["w"], x)[1:] * np.float32(2) + params["b"]
    return {"y": y, "total": fnp.sum(y) if y[0] > 0 else None, "k": fnp.sort(x)}
print(fg.program(f)({"w": np.ones((3, 2)), "b": 1.0}, np.ones(2)).fingerprint())
"""


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    first, second = run_python(FINGERPRINT, seed="1"), run_python(FINGERPRINT, seed="2")
    assert first == second
    assert len(bytes.fromhex(first)) == 32


def test_a_fingerprint_does_not_depend_on_names_and_lines() -> None:
    staged = small()
    renamed = replace(
        staged,
        name="other",
        names=("p", "q"),
        equations=tuple(replace(each, source="") for each in staged.equations),
        guards=tuple(replace(each, source="other.py:1") for each in staged.guards),
    )
    assert renamed.fingerprint() == staged.fingerprint()
    assert again(staged).fingerprint() == staged.fingerprint()


def test_a_fingerprint_tells_programs_apart() -> None:
    staged = small()
    product, total, sums, comparison = staged.equations
    others = [
        staged,
        replace(staged, equations=(replace(product, operation=add), total, sums, comparison)),
        replace(staged, equations=(replace(product, operands=(1, 0)), total, sums, comparison)),
        replace(staged, inputs=(staged.inputs[0], Spec((), F8, weak=True))),
        replace(staged, outputs=(0,)),
        replace(staged, guards=()),
        replace(staged, result=pytrees.structure([0])),
        *(of_constant(each) for each in (*SCALARS, *ARRAYS.values())),
    ]
    assert len({each.fingerprint() for each in others}) == len(set(others)) == len(others)


@together("name", PLAIN)
def test_equal_programs_have_equal_fingerprints(name: str) -> None:
    assert PLAIN[name].staged().fingerprint() == PLAIN[name].staged().fingerprint()
