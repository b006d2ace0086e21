"""Nests that differ only in their arrays: one function for all of them.

Layers of a net, parameters of a model, and steps of a loop that is written out have such nests.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import prod

from funcgrad._backends.native import nest_ranges
from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import memory_type
from funcgrad._backends.native.nests import NestWriter
from funcgrad._backends.native.plan_steps import Member, Nest
from funcgrad._backends.native.views import View
from funcgrad._programs.equation import exact_key


def note_nests(site: FunctionSite) -> None:
    """Count the nests of a function that is begun, so that the first of many is a call too."""
    for step in site.plan.steps:
        if isinstance(step, Nest):
            site.nests[id(step)] = key = _key(site, step)
            site.module.nests[key] += 1


def write_nest(site: FunctionSite, nest: Nest) -> None:
    """Write a nest, or a call of the function for all of its kind.

    The first call of an unrolled recurrent net takes 0.7 of the time so, and Hamiltonian Monte
    Carlo runs in 0.8. LLVM puts functions of nests into those that call them where it optimizes.
    """
    module, lines, key = site.module, site.lines, site.nests[id(nest)]
    if module.nests[key] == 1 or module.threads > 1:
        nest_ranges.write_nest(site, nest)
        return
    site.work += prod(nest.shape) * len(nest.members)
    if key not in module.nest_names:
        module.nest_names[key] = _function(site, nest, f"nest{len(module.nest_names)}")
    arguments = []
    for variable, view in {**nest.operands, **nest.stores}.items():
        kind = memory_type(site.plan.specs[variable].dtype)
        arguments.append(f"ptr {lines.address(site.pointer(view.buffer), view.offset, kind)}")
    lines.emit(f"call void @{module.nest_names[key]}({', '.join(arguments)})")


def _function(site: FunctionSite, nest: Nest, name: str) -> str:
    """Write the function of a nest, of the places where its arrays begin; returns its name."""
    plan, module, views = site.plan, site.module, {**nest.operands, **nest.stores}
    names = {variable: f"%a{k}" for k, variable in enumerate(views)}
    for operand, result in _overwritten(site, nest):
        names[operand] = names[result]

    def moved(variable: int, view: View) -> View:
        buffer = variable
        if variable in nest.stores and view.buffer != variable:  # a piece of another array
            buffer = -1 - variable
            names[buffer] = names[variable]
        return View(buffer, view.shape, view.strides, 0)

    reads, stores = [
        {variable: moved(variable, view) for variable, view in some.items()}
        for some in (nest.operands, nest.stores)
    ]
    lines = FunctionText(module.arithmetic, module.definitions)
    alike = Nest(nest.shape, nest.members, reads, stores)
    place = names.__getitem__
    NestWriter(lines, alike, plan.specs, place, plan.number, module.bits).write()
    lines.emit("ret void")
    parameters = ", ".join([f"ptr %a{k}" for k in range(len(views))])
    module.add(f"define internal void @{name}({parameters}) alwaysinline nounwind", lines)
    return name


def _overwritten(site: FunctionSite, nest: Nest) -> list[tuple[int, int]]:
    """The operands that lie where results are stored, with these: they are read before."""

    def beginning(view: View) -> tuple[str | int, int]:
        return site.pointers.get(view.buffer, view.buffer), view.offset

    places = {beginning(view): variable for variable, view in nest.stores.items()}
    pairs = [(variable, places.get(beginning(view))) for variable, view in nest.operands.items()]
    return [(operand, result) for operand, result in pairs if result is not None]


def _key(site: FunctionSite, nest: Nest) -> Hashable:
    """Everything that a nest's lines depend on, but for where its arrays begin."""
    plan = site.plan
    places: dict[int, int] = {}

    def place(variable: int) -> int:
        return places.setdefault(variable, len(places))

    def member_key(member: Member) -> Hashable:
        folded = member.folded
        how = folded and (folded.axes, folded.fold, exact_key(folded.neutral))
        return tuple(map(place, member.operands)), place(member.variable), member.formula, how

    members = tuple(map(member_key, nest.members))
    arrays = [
        tuple([(place(variable), view.shape, view.strides) for variable, view in views.items()])
        for views in (nest.operands, nest.stores)
    ]
    values = [(plan.specs[variable], exact_key(plan.number(variable))) for variable in places]
    pairs = tuple([(place(v), place(result)) for v, result in _overwritten(site, nest)])
    pieces = tuple([view.buffer != variable for variable, view in nest.stores.items()])
    return nest.shape, members, *arrays, tuple(values), pairs, pieces
