"""Hypothesis profiles: the same examples on every run, or a long search for new ones.

`python -m pytest` gives the same verdict everywhere. To search further::

    python -m pytest --hypothesis-profile=explore
"""

from hypothesis import settings

# No deadlines: the first call of a function may be slow, and machines differ.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("repeatable")
