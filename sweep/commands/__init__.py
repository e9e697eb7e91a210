"""One file a command: a function of the file's name, or a `typer.Typer` with several
commands. Nothing heavy is imported before a command runs.
"""
