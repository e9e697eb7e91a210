"""Lispress programs: text to tree to graph and back, without torch, disk or recursion.

`lispress` reads and writes; `graph` resolves `let` and named arguments;
`function_types` lists the API calls of a program; `linearise` writes it as prefix
tokens for a sequence model.
"""
