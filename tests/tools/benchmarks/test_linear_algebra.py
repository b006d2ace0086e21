"""The costs of linear algebra cover all its functions, and compare equal computations."""

import numpy as np

import funcgrad as fg
from tests.together import together
from tests.tools.benchmarks.linear_algebra import Subject, every_subject, missing, totals

SUBJECTS = list(every_subject(6))


def test_every_function_of_numpy_is_measured() -> None:
    names = {subject.name for subject in SUBJECTS}
    assert not {name for name in missing(names) if not name.startswith("scipy ")}
    assert missing(names - {"det", "scipy lu"}) - missing(names) == {"det", "scipy lu"}


@together("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_sums_are_those_of_numpy(subject: Subject) -> None:
    f = totals(subject)
    if subject.name == "scipy cho_factor":  # which leaves whatever was there in one triangle
        f = totals(subject._replace(other=lambda x: np.triu(subject.other(x)[0])))
    if subject.name in ("eig", "scipy eig", "scipy eigh"):  # of vectors the signs are others
        f = totals(
            subject._replace(own=lambda x: subject.own(x)[0], other=lambda x: subject.other(x)[0])
        )
    value, gradient = fg.value_and_grad(f.own)(fg.tensor(subject.point))
    np.testing.assert_allclose(value, f.other(), rtol=1e-9)
    assert np.any(np.asarray(gradient))
