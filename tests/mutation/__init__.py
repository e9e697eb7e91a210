"""Mutation testing of what a guarantee rests on: `python -m tests.mutation --help`.

A mutant is the source with one small fault. The tests that run the faulty line must notice it.
"""
