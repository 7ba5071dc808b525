"""How far long work is, told to a function or to a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def follow(progress: Any) -> tuple[Callable[[str, int, int], object], Callable[[], object]]:
    """What to call with `(what, done, total)` now and then, and what to call at the end.

    `progress` is such a function; a bar of tqdm, or what speaks like one (`total`, `n`, `update`, `set_description`); its class; or `True`: a bar of tqdm where it is
    installed, otherwise a line on the terminal.

    >>> told = []
    >>> tell, end = follow(lambda *now: told.append(now))
    >>> tell("images", 3, 8), end(), told
    (None, None, [('images', 3, 8)])
    """
    if progress is True:
        try:
            from tqdm.auto import tqdm as progress
        except ImportError:
            progress = _Line
    if isinstance(progress, type) and hasattr(progress, "update"):
        bar = progress()
        return _Bar(bar), bar.close
    if hasattr(progress, "update") and hasattr(progress, "total"):
        return _Bar(progress), _nothing
    if not callable(progress):
        raise TypeError(f"progress is {progress!r}, expected a function, a bar of tqdm, or True")
    return progress, _nothing


class _Bar:
    """Tells a bar."""

    def __init__(self, bar: Any) -> None:
        self.bar, self.what = bar, None

    def __call__(self, what: str, done: int, total: int) -> None:
        if what != self.what or done < self.bar.n or total != self.bar.total:
            self.what = what
            self.bar.reset(total=total)
            self.bar.set_description(what)
        self.bar.update(done - self.bar.n)


class _Line:
    """A bar of one line, where tqdm is not installed."""

    def __init__(self) -> None:
        self.n, self.total, self.what = 0, 0, ""

    def reset(self, total: int) -> None:
        self.n, self.total = 0, total

    def set_description(self, what: str) -> None:
        self.what = what

    def update(self, more: int) -> None:
        self.n += more
        print(f"\r\033[K{self.what}: {self.n} of {self.total}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print(file=sys.stderr)


def _nothing() -> None:
    pass
