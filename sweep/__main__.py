"""`python -m sweep`: the same as the `sweep` script."""

from sweep.cli import main

if __name__ == "__main__":
    main()
