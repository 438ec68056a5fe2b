"""Errors that a user can act on. Each maps to one exit code of the command line."""

from __future__ import annotations

from collections.abc import Sequence

EXIT_ANSWER = 0
EXIT_NOTHING_FITS = 1
EXIT_BAD_INPUT = 2
EXIT_STAGE_FAILED = 3


class LcplanError(Exception):
    """Base of every error that lcplan raises on purpose."""

    exit_code = EXIT_STAGE_FAILED


class BadInputError(LcplanError):
    """The request cannot be understood or breaks a rule. The message names the problem, its values and an alternative.

    Holds every problem that was found, not only the first.
    """

    exit_code = EXIT_BAD_INPUT

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class NothingFitsError(LcplanError):
    """The search is over and no candidate fits the budget."""

    exit_code = EXIT_NOTHING_FITS


class StageFailedError(LcplanError):
    """A stage could not run at all (no toolchain, unwritable folder, broken study)."""

    exit_code = EXIT_STAGE_FAILED
