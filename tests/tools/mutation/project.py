"""The files whose mistakes count in the project's score, and the tests that have to find them.

The subjects are all files of the package. The tests of a subject come in rounds, the fastest first;
a mutant that survives one round goes to the next.
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
    ("tests/backends/numpy/test_plans.py",),
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
        "factors": ("test_accumulation", "test_reverse", "test_linear"),
        "linear": ("test_linear", "test_custom"),
        "calls": ("test_custom", "test_checkpoint"),
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
            "tests/primitives/test_products.py",
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
            "tests/primitives/test_products.py",
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
            "tests/primitives/test_products.py",
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
        "funcgrad": (("tests/test_errors.py", "tests/test_check_primitive.py"),),
        "funcgrad/_base": (
            ("tests/test_quick_dataclasses.py", "tests/test_floating_errors.py"),
            ("tests/test_interpreters.py", "tests/test_process_locks.py"),
            ("tests/test_notebooks.py", "tests/test_strangers_memory.py", "tests/debug"),
        ),
        "funcgrad/_core": (
            ("tests/test_tree.py", "tests/test_trees.py", "tests/test_tensor.py"),
            ("tests/test_dispatch.py", "tests/test_weak_numbers.py", "tests/test_users_values.py"),
            ("tests/test_check_primitive.py", "tests/test_numbers_of_operators.py"),
        ),
        "funcgrad/_core/structure": (
            ("tests/test_structure.py", "tests/test_intrinsics.py"),
            ("tests/passes/test_passes.py", "tests/passes/test_costs.py"),
            ("tests/debug/test_elements.py", "tests/test_check_primitive.py"),
        ),
        "funcgrad/_external": (("tests/foreign",), ("tests/test_scipy_solvers.py",)),
        "funcgrad/_forms": (("tests/forms",), ("tests/io/test_written_before.py",)),
        "funcgrad/_hints": (
            ("tests/test_foreign_names.py", "tests/test_names.py"),
            ("tests/test_remedies.py", "tests/io/test_written_before.py"),
        ),
        "funcgrad/_hooks": (("tests/random/test_key_checks.py",), ("tests/debug",)),
        "funcgrad/_programs": (
            ("tests/programs",),
            ("tests/passes/test_passes.py", "tests/forms"),
            ("tests/transforms/test_call_primitives.py", "tests/backends/test_conformance.py"),
        ),
        "funcgrad/_staging": (("tests/staging",),),
        "funcgrad/_backends": (
            tuple([f"tests/backends/test_{name}.py" for name in ("choice", "decompose")]),
            tuple([f"tests/backends/test_{name}.py" for name in ("conformance", "lists_backend")]),
        ),
        "funcgrad/numpy/lib": (("tests/numpy/test_indexing.py", "tests/differential"),),
        "funcgrad/numpy": (
            ("tests/numpy",),
            ("tests/differential",),
            ("tests/edges", "tests/test_odd_options.py"),
        ),
        "funcgrad/scipy/sparse": (("tests/implicit/test_krylov.py",),),
        "funcgrad/scipy/optimize": (("tests/implicit", "tests/scipy"),),
        "funcgrad/scipy": (("tests/scipy", "tests/test_foreign_names.py"),),
        "funcgrad/tensor": (
            ("tests/test_tensor.py", "tests/test_dispatch.py", "tests/test_immutability.py"),
            ("tests/test_foreign_attributes.py", "tests/test_tensors_as_indices.py"),
            ("tests/numpy/test_interchange.py", "tests/clients", "tests/differential"),
        ),
        "funcgrad/testing": (
            ("tests/testing", "tests/test_testing.py"),
            ("tests/test_points.py", "tests/test_check_primitive.py"),
        ),
        "funcgrad/testing/laws": (("tests/testing", "tests/test_testing.py"),),
        "funcgrad/testing/strategies": (("tests/testing", "tests/test_testing.py"),),
        "funcgrad/testing/operations": (
            ("tests/test_check_primitive.py", "tests/test_structure.py"),
            ("tests/test_kinks.py", "tests/test_intrinsics.py"),
        ),
        "funcgrad/tree": (
            ("tests/test_tree.py", "tests/test_tree_parts.py", "tests/test_trees.py"),
        ),
        "funcgrad/interop": (("tests/interop/test_flat.py", "tests/interop/test_sklearn.py"),),
        "funcgrad/interop/onnx": (
            ("tests/interop/test_onnx_export.py", "tests/interop/test_onnx_load.py"),
            ("tests/interop/test_onnx_operations.py", "tests/interop/test_onnx_backend.py"),
        ),
        "funcgrad/interop/sklearn": (("tests/interop/test_sklearn.py",),),
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
        "funcgrad/nn": (("tests/nn",),),
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
    """The files whose mistakes are counted: all but those that only estimate, or only import."""
    files = [file for file in (root / "funcgrad").rglob("*.py") if file.name != "__init__.py"]
    paths = sorted(str(file.relative_to(root)) for file in files)
    left_out = ("funcgrad/_passes/costs.py", "funcgrad/testing/plugin/")
    return [path for path in paths if not path.startswith(left_out)]


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
    """The tests that have to see mistakes in a file of the package, the quickest first.

    The examples in a file run by themselves: to collect them imports the file anew.
    """
    if not path.startswith("funcgrad/"):
        return []
    examples = [(path,)] if ">>> " in (ROOT / path).read_text() else []
    return [*dict.fromkeys(_rounds_of(Path(path))), *examples]


def _rounds_of(path: Path) -> Iterator[Round]:
    """First the tests that the tables name for a file, then those of its folder."""
    name, folder = path.stem, str(path.parent)
    yield from _OF_FOLDERS.get(folder, ())
    if folder.startswith("funcgrad/_primitives"):
        yield from _rounds_of_primitives(path)
    elif folder == "funcgrad/_passes" or name in _PASSES:
        if name in _PASSES:
            yield tuple([f"tests/{each}.py" for each in _PASSES[name]])
        yield from _OF_ALL_PASSES
    elif folder == "funcgrad/_backends/numpy":
        yield from _OF_PLANS
    elif folder == "funcgrad/_transforms":
        if name in _OF_TRANSFORM:
            yield tuple([f"tests/transforms/{each}.py" for each in _OF_TRANSFORM[name]])
        yield ("tests/transforms",)
        yield from _OF_TRANSFORMS
    elif folder not in _OF_FOLDERS:
        yield (_mirror(path),)


def _rounds_of_primitives(path: Path) -> Iterator[Round]:
    name = path.stem
    names = " or ".join(_READERS.get(name, _names_of_primitives(path)))
    if name in _OF_PRIMITIVES:
        yield _OF_PRIMITIVES[name]
    if not names:
        yield ("tests/numpy",)
        return
    yield (
        "tests/primitives/test_primitives.py",
        "tests/test_structure.py",
        "tests/test_intrinsics.py",
        f"-k={names} or test_structure or test_intrinsics",
    )
    yield (
        "tests/primitives/test_mixed_dtypes.py",
        "tests/test_structural_zeros.py",
    )


def _mirror(path: Path) -> str:
    """The folder of tests that mirrors the file's, or the next one above."""
    folder = Path("tests", *path.parent.parts[1:])
    while not (ROOT / folder).exists():
        folder = folder.parent
    return str(folder)


def _names_of_primitives(path: Path) -> list[str]:
    module = importlib.import_module(".".join(path.with_suffix("").parts))
    return sorted(
        {
            value.name
            for name, value in vars(module).items()
            if isinstance(value, Primitive) and name in module.__all__
        }
    )
