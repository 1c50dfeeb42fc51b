"""What all tests share."""

from hypothesis import settings

# The same examples every time: a test that fails on one machine fails on all of them.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
