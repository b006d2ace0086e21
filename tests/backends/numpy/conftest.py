"""The tests of this folder are about the NumPy backend: what they jit, it runs."""

import pytest

from funcgrad._backends import choice


@pytest.fixture(autouse=True)
def _numpy_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make NumPy the default backend, whichever the option ``--backend`` names."""
    monkeypatch.setattr(choice, "DEFAULT", "numpy")
