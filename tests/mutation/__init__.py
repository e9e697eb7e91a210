"""Mutation testing of the privacy core: `python -m tests.mutation --help`.

A mutant is the source with one small fault. The tests that run the faulty line must notice it.
"""
