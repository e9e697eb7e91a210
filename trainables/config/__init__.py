"""A trial's configuration: its fields, what they allow, and the mechanism that they
describe.
"""
