"""The tests of ppdm; `tests.bench` and `tests.docs` are scripts of their own."""
