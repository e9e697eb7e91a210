"""Reading and writing of files: whole or not at all, locked, with errors of one
line.
"""
