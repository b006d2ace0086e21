"""A program as a function of ``jax.lax``: each equation by its structure.

>>> import pytest
>>> jax = pytest.importorskip("jax")
>>> import funcgrad as fg
>>> staged = fg.program(lambda x: x * x + 1)(np.float32(3.0))
>>> jax.jit(lambda x: Translation().run(staged, [x])[0][0])(np.float32(3.0)).tolist()
10.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.array_code.moved_boxes import moved
from funcgrad._backends.array_code.ufunc_algebra import Element, random_words
from funcgrad._backends.control_forms import form_of
from funcgrad._backends.xla.host_calls import HostCalls
from funcgrad._backends.xla.xla_algebra import XlaAlgebra, raises_integers
from funcgrad._backends.xla.xla_folds import multiplied, reduced, scanned
from funcgrad._backends.xla.xla_forms import by_form
from funcgrad._backends.xla.xla_loops import Outcome, chosen, is_guarded, looped, stays_on_host
from funcgrad._backends.xla.xla_matrices import from_factors, in_arrays
from funcgrad._backends.xla.xla_places import gathered, scattered
from funcgrad._backends.xla.xla_special import special_function
from funcgrad._backends.xla.xla_writer import UntranslatableError, XlaWriter
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import (
    EFFECT,
    Choice,
    Contraction,
    Control,
    Elementwise,
    Factored,
    Gather,
    Loop,
    Movement,
    Opaque,
    Random,
    Reduction,
    Scan,
    Scatter,
)
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program


class Translation:
    """One program, while JAX traces it.

    Parameters
    ----------
    calls : HostCalls, optional
    checks : bool, default: False
        Whether somebody reads if all went well.
    """

    def __init__(self, calls: HostCalls | None = None, checks: bool = False) -> None:
        self.writer = XlaWriter(checks)
        self.algebra = XlaAlgebra(self.writer)
        self.calls = HostCalls() if calls is None else calls

    def run(self, program: Program, inputs: Sequence[Array]) -> Outcome:
        """The outputs of a program, and whether all went well."""
        values, ok = self.values(program, [*inputs, *map(embedded, program.constants)])
        return [values[variable] for variable in program.outputs], ok

    def values(self, program: Program, known: Sequence[Array]) -> Outcome:
        """The values of all variables, from inputs and constants."""
        values, specs = [*known], program.specs()
        oks: Array | None = None
        for equation in program.equations:
            operands = [values[variable] for variable in equation.operands]
            outs, ok = self._results(equation, operands, [specs[k] for k in equation.operands])
            values += [
                self.writer.cast_to(out, spec.dtype)
                for out, spec in zip(outs, equation.results, strict=True)
            ]
            if ok is not None:
                oks = ok if oks is None else self.writer.lax.bitwise_and(oks, ok)
        return values, oks

    def _results(self, equation: Equation, operands: list[Array], specs: Sequence[Spec]) -> Outcome:
        try:
            return self._translated(equation, operands, specs)
        except UntranslatableError:
            return self.calls.call(self.writer, equation, operands, specs), None

    def _translated(
        self, equation: Equation, operands: list[Array], specs: Sequence[Spec]
    ) -> Outcome:
        structure, params = equation.operation.structure, dict(equation.params)
        if EFFECT in equation.operation.traits:
            if params.get("of_argument") and not self.writer.checks:
                return [operands[0]], None
            raise UntranslatableError("it has an effect")
        match structure:
            case Control():
                return self._controlled(equation, operands, specs)
            case Factored():
                form = structure.factorization(**params)
                return from_factors(self.writer, form, operands, equation.results)
            case Opaque() if structure.arrays is not None:
                return in_arrays(self.writer, structure, operands, equation.results, params)
            case Gather():
                places = structure.places(*[s.shape for s in specs], **params)
                out, ok = gathered(self.algebra, places, operands, equation.results[0])
                return [out], ok
            case Scatter():
                places = structure.places(*[s.shape for s in specs], **params)
                base, updates = (
                    operands[0] if structure.updates else None,
                    operands[structure.updates],
                )
                spec = equation.results[0]
                out, ok = scattered(
                    self.algebra, places, structure.fold, base, updates, operands, spec
                )
                return [out], ok
        if len(equation.results) != 1:
            raise UntranslatableError("it has several results")
        out = self._by_structure(structure, params, operands, specs, equation.results[0])
        if raises_integers(equation, specs):
            lax, y = self.writer.lax, operands[1]
            return [out], lax.reduce_and(lax.ge(y, y.dtype.type(0)), [*range(y.ndim)])
        return [out], None

    def _by_structure(
        self,
        structure: Any,
        params: dict[str, Any],
        operands: list[Array],
        specs: Sequence[Spec],
        spec: Spec,
    ) -> Array:
        m, writer = self.algebra, self.writer
        shapes = [x.shape for x in operands]
        match structure:
            case Elementwise() if structure.formula is not None:
                return self._elements(structure, params, operands, specs, spec)
            case Elementwise():
                return special_function(writer, structure.ufunc, operands, spec)
            case Movement():
                pieces = structure.pieces(spec.shape, *shapes, **params)
                if pieces is not None:
                    return moved(writer, operands, pieces, spec, structure.adds)
            case Contraction():
                return multiplied(m, operands, structure.letters(*specs, **params), spec)
            case Reduction() if structure.fold is not None:
                return reduced(m, structure.fold, operands[0], spec, params["axis"])
            case Scan():
                reverse = params.get("reverse", False)
                return scanned(m, structure.fold, operands, spec, params["axis"], reverse)
            case Random() if structure.block is not None:
                return random_words(m, structure.block, params, operands, spec, writer.interleaved)
            case Opaque():
                return by_form(writer, structure, operands, spec, params)
        raise UntranslatableError("only NumPy or SciPy evaluate it")

    def _elements(
        self,
        structure: Elementwise,
        params: Mapping[str, Any],
        operands: Sequence[Array],
        specs: Sequence[Spec],
        spec: Spec,
    ) -> Array:
        m = self.algebra
        assert structure.formula is not None
        elements = []
        for x, s in zip(operands, specs, strict=True):
            if s.weak and s.dtype.kind == "b" != spec.dtype.kind:  # Python counts its booleans
                x = self.writer.cast_to(x, np.dtype(np.int64))
            elements.append(m.element(x, s.weak))
        with np.errstate(all="ignore"):
            out = structure.formula(m, *elements, **params)
        array = m.array(out, spec.dtype) if isinstance(out, Element) else np.asarray(out)
        return self.writer.expanded(self.writer.cast_to(array, spec.dtype), spec.shape)

    def _controlled(
        self, equation: Equation, operands: list[Array], specs: Sequence[Spec]
    ) -> Outcome:
        structure = equation.operation.structure
        assert isinstance(structure, Control)
        if equation.called is not None:
            return self.run(equation.called, operands)
        if stays_on_host(equation):
            raise UntranslatableError("it runs Python, or reverse mode runs it twice")
        assert structure.form is not None
        form = structure.form(**dict(equation.params))
        if is_guarded(form):
            raise UntranslatableError("it runs Python")
        if isinstance(form, Program):
            outs, ok = self.run(form, operands)
            return outs[-len(equation.results) :], ok
        fitting = form_of(equation, dict(zip(equation.operands, specs, strict=True)))
        if isinstance(fitting, Choice):
            return chosen(self.writer, fitting, operands, equation.results, self.run)
        if isinstance(fitting, Loop):
            return looped(self.writer, fitting, operands, equation.results, self.run)
        raise UntranslatableError("its programs do not fit its operands")


def embedded(constant: Any) -> Array:
    """A constant inside the compiled code."""
    return np.asarray(constant.value, constant.spec.dtype)
