"""The costs of small programs, counted by hand."""

import importlib
import pkgutil
import tracemalloc

import numpy as np
import pytest

import funcgrad as fg
import funcgrad._primitives
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Linear, Primitive, Sample
from funcgrad._core.specs import Spec
from funcgrad._passes.costs import Costs, bytes_of, costs, peak_bytes
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.inline import inlined
from funcgrad.tensor.tensor import apply
from tests.subjects import SUBJECTS, wrong_square
from tests.together import together
from tests.transforms.support import complex_numbers, numbers


def primitives() -> dict[str, Primitive]:
    """All primitives by name."""
    modules = pkgutil.walk_packages(funcgrad._primitives.__path__, "funcgrad._primitives.")
    values = [value for m in modules for value in vars(importlib.import_module(m.name)).values()]
    return {value.name: value for value in values if isinstance(value, Primitive)}


PRIMITIVES = primitives()


def of(f, *args) -> Costs:
    return costs(fg.program(f)(*args))


# ------------------------------------------------------------------------------------- arithmetic


@together(
    ("f", "args", "arithmetic", "transcendental"),
    [
        (lambda x: x * 2.0 + x, (numbers(5),), 10, 0),
        (lambda x, y: x * y, (numbers(3, 1), numbers(4)), 12, 0),
        (fnp.exp, (numbers(2, 3),), 6, 6),
        (lambda x: fnp.sqrt(x) + fnp.log(x), (3.0,), 3, 1),
        (lambda x: fnp.sum(x, axis=0), (numbers(4, 5),), 20, 0),
        (fnp.max, (numbers(7),), 7, 0),
        (lambda x: fnp.any(x > 0), (numbers(7),), 14, 0),
        (fnp.argmax, (numbers(7),), 7, 0),
        (lambda x: fnp.where(x > 0, x, 0.0), (numbers(4),), 8, 0),
        (fnp.sort, (numbers(6),), 6, 0),
        (lambda x: fnp.cumsum(x, axis=0), (numbers(3, 2),), 6, 0),
        (lambda x, y: x @ y, (numbers(2, 3), numbers(3, 4)), 2 * 2 * 3 * 4, 0),
        (lambda x, y: x @ y, (numbers(3), numbers(3)), 6, 0),
        (lambda x, y: x @ y, (numbers(3), numbers(3, 5)), 30, 0),
        (lambda x, y: x @ y, (numbers(2, 3), numbers(3)), 12, 0),
        (lambda x, y: x @ y, (numbers(7, 1, 2, 3), numbers(5, 3, 4)), 2 * 35 * 24, 0),
        (lambda x, y: x @ y, (numbers(1, 2, 3), numbers(0, 3, 4)), 0, 0),
        (lambda x, y: x @ y, (numbers(2, 0), numbers(0, 4)), 0, 0),
        (
            lambda x, y: fnp.einsum("bij,bkj->bik", x, y),
            (numbers(2, 3, 4), numbers(2, 5, 4)),
            2 * 2 * 3 * 4 * 5,
            0,
        ),
        (lambda x: fnp.concatenate([x, x]).reshape(2, -1).T[0], (numbers(4),), 0, 0),
        (lambda x: x[np.array([0, 1, 1])], (numbers(4),), 0, 0),
        (lambda x: x.at[np.array([0, 1, 1])].add(1.0), (numbers(4),), 3, 0),
        (lambda x: x * x, (np.zeros((0, 3)),), 0, 0),
        (lambda z: fnp.conj(z) * z, (complex_numbers(3),), 6, 0),
        (lambda x: x, (numbers(3),), 0, 0),
        (lambda i: i // 2 + i, (np.arange(3, dtype=np.uint8),), 6, 0),
    ],
)
def test_arithmetic_is_counted(f, args, arithmetic, transcendental):
    found = of(f, *args)
    assert (found.arithmetic, found.transcendental) == (arithmetic, transcendental)
    assert found.unknown == 0


def test_equations_are_counted_by_operation():
    found = of(lambda x: fnp.exp(x * 2.0) * fnp.exp(x), numbers(3))
    assert {row.name: row.equations for row in found.operations} == {"exp": 2, "multiply": 2}
    assert found.equations == 4
    assert [row.arithmetic for row in found.operations] == [6, 6]


def test_calls_cost_what_they_do():
    found = of(lambda x: fg.checkpoint(wrong_square)(x) * 2.0, numbers(3))
    assert [row.name for row in found.operations] == ["multiply"]
    assert (found.unknown, found.arithmetic) == (0, 6)


def test_a_call_of_which_nobody_knows_what_it_does_is_unknown_and_not_nothing():
    @fg.custom_vjp
    def shown(x):
        return np.sort(np.asarray(x))

    shown.defvjp(lambda x: (shown(x), None), lambda _, ct: (ct,))
    found = of(lambda x: shown(x) * 2.0, numbers(3))
    (call,) = [row for row in found.operations if row.arithmetic is None]
    assert (call.name, call.transcendental, call.bytes_read) == ("custom_vjp shown", None, 24)
    assert (found.unknown, found.arithmetic) == (1, 3)
    assert "at least 3 arithmetic operations" in str(found)
    assert "?" in str(found)


def test_an_operation_of_unknown_form_is_unknown():
    whole = Primitive(
        "whole_transform",
        lambda x: np.fft.fft(x),
        lambda x: Spec(x.shape, np.dtype(complex)),
        Linear((lambda ct, x: whole(ct),)),
        lambda primitive, size, args, batched, params: primitive(*args),
        lambda: [Sample((np.ones(3),))],
    )
    assert of(lambda x: apply(whole, x), numbers(8)).unknown == 1


@together("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_every_program_has_costs(subject):
    with np.errstate(all="ignore"):
        program = subject.staged()
        less = costs(optimize(program))
    found = costs(program)
    assert found.equations == len(inlined(program).equations)
    assert less.arithmetic <= found.arithmetic
    assert less.bytes_written <= found.bytes_written
    assert found.transcendental <= found.arithmetic
    assert found.peak_bytes <= found.bytes_written
    assert found == costs(program)
    assert hash(found) == hash(costs(program))


# ------------------------------------------------------------------------------------------ bytes


@pytest.mark.parametrize(
    ("dtype", "shape", "expected"),
    [("?", (3,), 3), ("e", (2, 2), 8), ("f", (), 4), ("D", (2,), 32), ("q", (0, 7), 0)],
)
def test_bytes_of_a_spec(dtype, shape, expected):
    assert bytes_of(Spec(shape, np.dtype(dtype))) == expected


def test_bytes_are_those_of_the_arrays():
    table = np.arange(6.0)
    found = of(lambda x, y: (x * y + table, x), numbers(6), np.ones(6, np.float32))
    assert (found.input_bytes, found.constant_bytes, found.output_bytes) == (48 + 24, 48, 96)
    assert found.bytes_read == (48 + 24) + (48 + 48)
    assert found.bytes_written == 48 + 48
    assert found.peak_bytes == 48 + 48


def test_an_operand_that_stands_twice_is_read_once():
    assert of(lambda x: x * x, numbers(4)).bytes_read == 32


def test_views_cost_nothing():
    found = of(lambda x: (x.T[1:].reshape(-1)[::-1], fnp.flip(x)), numbers(4, 4))
    assert (found.bytes_read, found.bytes_written, found.peak_bytes) == (0, 0, 0)
    assert found.output_bytes == 12 * 8 + 16 * 8


def test_of_a_large_table_only_the_rows_count():
    found = of(lambda table, rows: table[rows], numbers(1000, 8), np.array([1, 5]))
    assert found.bytes_written == 2 * 8 * 8
    assert found.bytes_read < 2 * found.bytes_written + 100


# ------------------------------------------------------------------------------------------- peak


def test_values_go_after_their_last_use():
    def f(x):
        for _ in range(10):
            x = fnp.sin(x)
        return x

    assert of(f, numbers(100)).peak_bytes == 2 * 800


def test_a_view_keeps_the_memory_that_it_lies_in():
    def f(x):
        y = x * 2.0
        part = y[:1]
        return fnp.sin(x) * 3.0, part  # y is there to the end

    assert of(f, numbers(100)).peak_bytes == 3 * 800


def test_a_result_that_nothing_reads_goes_at_once():
    program = fg.program(lambda x: (fnp.exp(x), fnp.sin(fnp.cos(x)))[1])(numbers(100))
    assert peak_bytes(program) == 2 * 800


@pytest.mark.parametrize("f", [lambda x: x, lambda x: (x, x.T), lambda x: fnp.ones(3)])
def test_what_is_given_is_no_intermediate(f):
    assert of(f, numbers(2, 3)).peak_bytes == 0


def test_the_peak_is_what_evaluation_needs():
    def f(x):
        parts = [fnp.sin(x * k) for k in range(2, 12)]
        return fnp.sum(fnp.flip(sum(parts)) * parts[3])

    x = numbers(50_000)
    program = optimize(fg.program(f)(x))
    program(x)
    measured = []
    for _ in range(3):
        tracemalloc.start()
        try:
            program(x)
            measured.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    # The call copies its argument, since others could write to it.
    assert min(measured) - x.nbytes == pytest.approx(peak_bytes(program), rel=0.1)


# -------------------------------------------------------------------------------------- in print


def test_costs_print_as_a_table():
    found = of(lambda w, x: fnp.tanh(w @ x), numbers(300, 200), numbers(200, 100))
    lines = str(found).splitlines()
    assert lines[0] == (
        "<lambda>: 2 equations, 12,030,000 arithmetic operations, 30,000 of them transcendental"
    )
    assert "needs" not in lines[2]
    assert lines[4].split() == [
        "operation",
        "equations",
        "arithmetic",
        "transcendental",
        "reads",
        "writes",
    ]
    assert lines[5].split() == "matmul 1 12,000,000 0 625.0 KiB 234.4 KiB".split()
    assert len({len(line) for line in lines[4:]}) == 1


def test_costs_of_nothing_print_too():
    assert str(of(lambda x: x, 1.0)).splitlines() == [
        "<lambda>: 0 equations, 0 arithmetic operations, 0 of them transcendental",
        "  reads 0 B and writes 0 B; intermediates need 0 B at once",
        "  inputs 8 B, constants 0 B, outputs 8 B",
    ]
