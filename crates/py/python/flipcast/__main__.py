"""The `flipcast` program."""

import signal
import sys

from ._native import run_program


def main() -> int:
    """Runs the program with the arguments of this process and gives its exit code."""
    # The program answers Ctrl-C itself; Python would only take note of it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_program(["flipcast", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
