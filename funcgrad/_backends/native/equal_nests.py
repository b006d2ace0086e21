"""Nests that differ only in their arrays: one function for all of them.

Layers of a net, parameters of a model, and steps of a loop that is written out have such nests.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import prod

from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import memory_type
from funcgrad._backends.native.nest_ranges import Cut, write_ranges, write_shared, write_whole
from funcgrad._backends.native.plan_steps import Nest
from funcgrad._backends.native.views import View
from funcgrad._programs.equation import exact_key


def note_nests(site: FunctionSite) -> None:
    """Count the nests of a function that is begun, so that the first of many is a call too."""
    for step in site.plan.steps:
        if isinstance(step, Nest):
            known = site.module.nest_kinds
            site.nests[id(step)] = kind = known.setdefault(_key(site, step), len(known))
            site.module.nests[kind] += 1


def write_nest(site: FunctionSite, nest: Nest) -> None:
    """Write a nest, or a call of the function for all of its kind, or for ranges of them.

    The first call of an unrolled recurrent net takes 0.7 of the time so, and Hamiltonian Monte
    Carlo runs in 0.8. LLVM puts functions of nests into those that call them where it optimizes.
    """
    plan, module, lines, kind = site.plan, site.module, site.lines, site.nests[id(nest)]
    site.work += prod(nest.shape) * len(nest.members)
    if kind not in module.nest_names:
        cut = None
        if module.nests[kind] == 1:
            following = lines.continued()
            cut = write_whole(site, nest, following, site.pointer)
            if cut is None:
                lines.take(following)
                return
        module.nest_names[kind] = _function(site, nest, cut)
    (name, cut), arguments = module.nest_names[kind], []
    for variable, view in {**nest.operands, **nest.stores}.items():
        unit = memory_type(plan.specs[variable].dtype)
        arguments.append(lines.address(site.pointer(view.buffer), view.offset, unit))
    if cut is None:
        lines.emit(f"call void @{name}({', '.join([f'ptr {place}' for place in arguments])})")
    else:
        write_shared(site, nest, cut, name, arguments)


def _function(site: FunctionSite, nest: Nest, cut: Cut | None) -> tuple[str, Cut | None]:
    """Write the function of a nest, of the places where its arrays begin; returns its name.

    Threads share it as ``cut`` says, or else as the nest itself does.
    """
    module, views = site.module, {**nest.operands, **nest.stores}
    known = {variable: f"%a{k}" for k, variable in enumerate(views)}
    names = {**known, **{operand: known[result] for operand, result in _overwritten(site, nest)}}

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
    alike, place = Nest(nest.shape, nest.members, reads, stores), names.__getitem__
    lines = FunctionText(module.arithmetic, module.definitions)
    if cut is None:
        cut = write_whole(site, alike, lines, place)
    if cut is not None:
        addresses = [*known.values(), "%records"]
        return write_ranges(site, alike, cut, place, addresses), cut
    name = f"nest{len(module.nest_names)}"
    parameters = ", ".join([f"ptr {address}" for address in known.values()])
    lines.emit("ret void")
    module.add(f"define internal void @{name}({parameters}) alwaysinline nounwind", lines)
    return name, None


def _overwritten(site: FunctionSite, nest: Nest) -> list[tuple[int, int]]:
    """The operands that lie where results are stored, with these: they are read before."""

    def beginning(view: View) -> tuple[str | int, int]:
        return site.pointers.get(view.buffer, view.buffer), view.offset

    places = {beginning(view): variable for variable, view in nest.stores.items()}
    pairs = [(variable, places.get(beginning(view))) for variable, view in nest.operands.items()]
    return [(operand, result) for operand, result in pairs if result is not None]


def _key(site: FunctionSite, nest: Nest) -> Hashable:
    """Everything that a nest's lines depend on, but for where its arrays begin.

    One flat tuple: nested ones would be thousands of objects for the collector.
    """
    specs, numbers, places = site.plan.specs, site.plan.numbers, dict[int, int]()
    key: list[Hashable] = [nest.shape]
    for member in nest.members:
        key.append(member.formula.key)
        for variable in (*member.operands, member.variable):
            key.append(places.setdefault(variable, len(places)))
        folded = member.folded
        key.append(folded and (folded.axes, folded.fold, exact_key(folded.neutral)))
    for views in (nest.operands, nest.stores):
        for variable, view in views.items():
            key += places.setdefault(variable, len(places)), view.shape, view.strides
        key.append(None)
    key += [view.buffer != variable for variable, view in nest.stores.items()]
    for variable in places:
        spec = specs[variable]
        key += spec.shape, spec.dtype, spec.weak, exact_key(numbers.get(variable))
    for variable, result in _overwritten(site, nest):
        key += places[variable], places[result]
    return tuple(key)
