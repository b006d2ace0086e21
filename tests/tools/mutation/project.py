"""The files whose mistakes count in the project's score, and the tests that have to find them.

The subjects are files that compute numbers: primitives, densities, passes, plans and the core of
the transformations. The tests of a subject come in rounds, the fastest first; a mutant that
survives one round goes to the next.
"""

from __future__ import annotations

import importlib
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from funcgrad._core.primitive import Primitive
from tests.tools.mutation.mutants import Mutant, mutants_of
from tests.tools.mutation.trial import ROOT

__all__ = [
    "ONLY_SPEED",
    "Planned",
    "Round",
    "mutants_of_project",
    "rounds_of",
    "sampled",
    "subjects",
]

Planned: TypeAlias = tuple[str, Mutant]
"""A mutant and the path of its file, relative to the repository."""
Round: TypeAlias = tuple[str, ...]
"""Arguments of pytest."""

_TRANSFORMS: Final = """
    entries quick_entries large_entries record forward masked accumulation factors batch linear call
    custom_call checkpoint
""".split()

ONLY_SPEED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "funcgrad/_backends/numpy/rows_last.py": ("_time_to_turn",),
        "funcgrad/_backends/numpy/rowwise.py": ("_reduction_time",),
    }
)
"""Functions that estimate time: programs mean the same whatever they return."""

_PASSES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "contractions": ("passes/test_contractions",),
        "identity": ("passes/test_identity",),
        "rows_last": ("backends/numpy/test_rows_last",),
        "relax": ("passes/test_relax",),
        "builder": ("passes/test_passes", "backends/numpy/test_rows_last"),
        "rowwise": ("backends/numpy/test_rowwise", "backends/numpy/test_rows_last"),
        "schedule": ("passes/test_schedule",),
        "simplify": ("passes/test_algebra",),
        "sink": ("passes/test_algebra",),
    }
)
_OF_ALL_PASSES: Final[tuple[Round, ...]] = (
    ("tests/passes/test_passes.py",),
    ("tests/passes/test_preconditions.py",),
    ("tests/passes/test_polynomials.py", "tests/numpy/test_contraction.py"),
)
_OF_PLANS: Final[tuple[Round, ...]] = (
    ("tests/backends/numpy/test_loops.py",),
    ("tests/backends/numpy/test_kernels.py", "tests/backends/numpy/test_plans.py"),
    ("tests/backends/numpy/test_backend.py", "tests/staging/test_jit_memory.py"),
)
_OF_TRANSFORMS: Final[tuple[Round, ...]] = (
    ("tests/test_perturbation_confusion.py", "tests/test_structural_zeros.py"),
    ("tests/test_laws.py", "tests/transforms/test_custom_modes.py"),
    ("tests/primitives/test_mixed_dtypes.py", "tests/transforms/test_nested_calls.py"),
)
_OF_TRANSFORM: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "batch": ("test_batch",),
        "checkpoint": ("test_checkpoint", "test_nested_calls"),
        "accumulation": ("test_accumulation", "test_reverse"),
        "custom_call": ("test_custom", "test_checkpoint"),
        "factors": ("test_accumulation", "test_reverse", "test_linear"),
        "linear": ("test_linear", "test_custom"),
        "call": ("test_custom", "test_checkpoint"),
        "entries": ("test_entries", "test_reverse", "test_forward"),
        "forward": ("test_forward", "test_entries"),
        "large_entries": ("test_large_entries", "test_large_selections"),
        "masked": ("test_accumulation", "test_custom", "test_entries"),
        "quick_entries": ("test_entries", "test_reverse", "test_forward"),
        "record": ("test_reverse", "test_entries", "test_linear"),
    }
)
_OF_PRIMITIVES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cholesky": ("tests/numpy/test_linalg.py", "tests/scipy/test_linalg.py"),
        "contraction": (
            "tests/numpy/test_contraction.py",
            "tests/backends/numpy/test_contraction_source.py",
        ),
        "convolution": ("tests/nn/test_convolution.py",),
        "convolving": ("tests/primitives/test_convolving.py",),
        "cumulative": (
            "tests/primitives/test_products_of_others.py",
            "tests/numpy/test_reductions.py",
        ),
        "stand_in_examples": (
            "tests/transforms/test_absent_examples.py",
            "tests/control/test_examples.py",
        ),
        "determinants": ("tests/numpy/test_linalg.py",),
        "eigen": ("tests/numpy/test_eigen.py",),
        "eigen_general": ("tests/numpy/test_norms.py", "tests/numpy/test_eigen.py"),
        "elementwise_rules": ("add", "exp", "maximum", "where"),
        "einsum": (
            "tests/numpy/test_contraction.py",
            "tests/backends/numpy/test_contraction_source.py",
        ),
        "elementwise": ("tests/test_numbers_of_operators.py", "tests/numpy/test_elementwise.py"),
        "fft": ("tests/scipy/test_fft.py",),
        "indexing": ("tests/numpy/test_indexing.py",),
        "index_keys": ("tests/numpy/test_indexing.py",),
        "linear_systems": ("tests/numpy/test_linalg.py", "tests/scipy/test_linalg.py"),
        "lu": ("tests/scipy/test_linalg.py",),
        "matrix_equations": ("tests/scipy/test_linalg.py",),
        "matrix_functions": ("tests/scipy/test_linalg.py",),
        "norms": ("tests/numpy/test_norms.py",),
        "orthogonal": ("tests/numpy/test_orthogonal.py",),
        "polynomial_zeros": ("tests/numpy/test_polynomials.py",),
        "products": (
            "tests/numpy/test_contraction.py",
            "tests/backends/numpy/test_contraction_source.py",
        ),
        "kinks": ("absolute", "log", "maximum", "floor"),
        "logits": ("tests/nn/test_nn.py",),
        "pseudoinverses": ("tests/numpy/test_norms.py",),
        "random_bits": ("tests/random/test_random.py", "tests/random/test_random_discrete.py"),
        "reduction": ("tests/numpy/test_reductions.py",),
        "reduction_samples": ("sum", "max", "prod"),
        "rows": ("tests/numpy/test_indexing.py", "tests/numpy/test_contraction.py"),
        "scatter": ("tests/numpy/test_indexing.py",),
        "singular_values": ("tests/numpy/test_orthogonal.py", "tests/numpy/test_norms.py"),
        "sorting": ("tests/numpy/test_sorting.py", "tests/numpy/test_reductions.py"),
        "special": ("tests/primitives/test_digits.py", "tests/random/test_random.py"),
        "structural": ("tests/numpy/test_manipulation.py",),
        "transcendental": ("tests/primitives/test_digits.py", "tests/numpy/test_elementwise.py"),
    }
)

_OF_FOLDERS: Final[Mapping[str, tuple[Round, ...]]] = MappingProxyType(
    {
        "funcgrad/_backends/native": (("tests/backends/native",),),
        "funcgrad/integrate": (
            ("tests/integrate/test_odeint.py",),
            ("tests/integrate/test_derivatives.py",),
        ),
        "funcgrad/_control": (
            ("tests/control/test_scan.py", "tests/control/test_choices.py"),
            ("tests/control/test_whiles.py", "tests/control/test_associative.py"),
            ("tests/control/test_staging.py", "tests/control/test_refusals.py"),
            ("tests/control/test_nests.py", "tests/control/test_orders_and_kinds.py"),
        ),
        "funcgrad/implicit": (
            ("tests/implicit/test_solutions.py", "tests/implicit/test_refusals.py"),
            ("tests/implicit/test_krylov.py",),
            ("tests/implicit/test_modes.py",),
        ),
        "funcgrad/nn": (("tests/nn/test_convolution.py",),),
        "funcgrad/_primitives/special_functions": (("tests/scipy/special", "tests/scipy/stats"),),
        "funcgrad/scipy/stats": (("tests/scipy/stats",),),
    }
)
"""What is tried with the tests of a folder, before the conformance of the primitives in it."""

_READERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "basic_formulas": ("add", "exp", "less", "negative"),
        "bessel_orders": ("iv", "ive", "jv", "kv", "kve", "yv"),
        "convolving": ("convolve", "correlate", "sliding_windows", "spread"),
        "stand_in_examples": ("cholesky", "inv", "solve"),
        "elementwise_rules": ("add", "exp", "maximum", "where"),
        "einsum": ("contract", "matmul", "identity"),
        "failures": ("cholesky", "solve", "inv"),
        "kinks": ("absolute", "log", "maximum", "floor"),
        "logits": ("exp", "log"),
        "index_keys": ("deposit", "gather", "place", "view"),
        "movement": ("flip", "place", "reshape", "roll", "transpose", "view"),
        "precision": ("fabs", "hypot", "logaddexp", "signbit"),
        "products": ("contract", "matmul"),
        "quadrature": ("betainc", "gammainc", "jv"),
        "reduction_samples": ("sum", "max", "prod"),
        "rows": ("contract", "gather", "matmul"),
        "scipys": ("gammaln", "i0", "psi"),
    }
)
"""The primitives that use what a file without any has."""


def subjects(root: Path) -> list[str]:
    """The files whose mistakes are counted."""
    files = [
        *(root / "funcgrad/_primitives").rglob("*.py"),
        *(root / "funcgrad/scipy/stats").glob("*.py"),
        *(root / "funcgrad/_control").glob("*.py"),
        *(root / "funcgrad/integrate").glob("*.py"),
        *(root / "funcgrad/implicit").glob("*.py"),
        *(root / f"funcgrad/nn/{name}.py" for name in ("convolution", "pooling", "windows")),
        *(root / "funcgrad/_passes").glob("*.py"),
        *(root / f"funcgrad/_programs/{name}.py" for name in ("builder", "inline", "liveness")),
        *(root / "funcgrad/_backends/native").glob("*.py"),
        *(root / "funcgrad/_backends/numpy").glob("*.py"),
        *(root / f"funcgrad/_transforms/{name}.py" for name in _TRANSFORMS),
    ]
    paths = sorted(str(file.relative_to(root)) for file in files)
    only_estimates = "funcgrad/_passes/costs.py"
    return [path for path in paths if path != only_estimates and not path.endswith("__init__.py")]


def mutants_of_project(root: Path) -> list[Planned]:
    """Every mistake in the subjects, without those in estimates of time."""
    return [
        (path, mutant)
        for path in subjects(root)
        for mutant in mutants_of((root / path).read_text(), ONLY_SPEED.get(path, ()))
    ]


def sampled(planned: Sequence[Planned], count: int, seed: int) -> list[Planned]:
    """Choose ``count`` mutants, evenly over folders, their files, and the kinds each file has.

    The beginning of a sample is a smaller sample, spread as evenly, for runs that are cut short.
    """
    left: dict[str, dict[str, dict[str, list[Planned]]]] = {}
    for each in random.Random(seed).sample(planned, len(planned)):
        files = left.setdefault(str(Path(each[0]).parent), {})
        files.setdefault(each[0], {}).setdefault(each[1].kind, []).append(each)
    kinds: Counter[str] = Counter()
    chosen: list[Planned] = []
    while left and len(chosen) < count:
        for folder, files in list(left.items()):
            path, own = next(iter(files.items()))
            kind = min(own, key=lambda kind: kinds[kind])
            kinds[kind] += 1
            chosen.append(own[kind].pop())
            del files[path]
            own = {kind: mutants for kind, mutants in own.items() if mutants}
            if own:
                files[path] = own  # behind the others
            if not files:
                del left[folder]
    return chosen[:count]


def rounds_of(path: str) -> list[Round]:
    """The tests that have to see mistakes in a file, the quickest first; none if it is
    not one of the subjects.

    The examples in a file run by themselves: to collect them imports the file anew.
    """
    if path not in subjects(ROOT):
        return []
    examples = [(path,)] if ">>> " in (ROOT / path).read_text() else []
    return [*dict.fromkeys(_rounds_of(Path(path))), *examples]


def _rounds_of(path: Path) -> Iterator[Round]:
    name, folder = path.stem, path.parent.name
    yield from _OF_FOLDERS.get(str(path.parent), ())
    if "primitives" in path.parts:
        names = " or ".join(_READERS.get(name, _names_of_primitives(path)))
        if not names:
            raise ValueError(f"mutation: {path} has no primitives; _READERS has to name some")
        if name in _OF_PRIMITIVES:
            yield _OF_PRIMITIVES[name]
        yield (
            "tests/primitives/test_primitives.py",
            "tests/test_structure.py",
            "tests/test_intrinsics.py",
            f"-k={names}",
        )
        yield (
            "tests/primitives/test_mixed_dtypes.py",
            "tests/test_structural_zeros.py",
            f"-k={names} or structural_zeros",
        )
    elif folder == "passes" or name in _PASSES:
        if name in _PASSES:
            yield tuple([f"tests/{each}.py" for each in _PASSES[name]])
        yield from _OF_ALL_PASSES
    elif str(path.parent) in _OF_FOLDERS:
        return
    elif folder != "transforms":
        yield from _OF_PLANS
    else:
        yield tuple([f"tests/transforms/{each}.py" for each in _OF_TRANSFORM[name]])
        yield from _OF_TRANSFORMS


def _names_of_primitives(path: Path) -> list[str]:
    module = importlib.import_module(".".join(path.with_suffix("").parts))
    return sorted(
        {
            value.name
            for name, value in vars(module).items()
            if isinstance(value, Primitive) and name in module.__all__
        }
    )
