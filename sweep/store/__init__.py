"""Sweeps on disk: the files of a sweep and its trials, written so that they survive a
crash.
"""
