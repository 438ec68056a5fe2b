"""``lcplan inspect --profile``: the time of a step that ran, by part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lcplan.formats.errors import BadInputError
from planner.cli.output import print_json, print_view
from planner.cli.steps.inspect_options import foreign


def show_profile(options: dict[str, Any]) -> int:
    """Read the profile, and with a plan compare it.

    Raises
    ------
    BadInputError
        No profile, no plan, or options that belong to a part.
    """
    from planner.inspect.profile.report import report_of

    problems = [f"{name}: a profile does not take it" for name in foreign(options, "profile")]
    if options["kind"]:
        problems.append(f"{options['kind']!r}: a profile takes one plan or run")
    if problems:
        raise BadInputError(problems)
    plan = Path(options["what"]) if options["what"] else None
    report = report_of(Path(options["profile"]), plan=plan, program=options["program"])
    if options["output"] == "json":
        print_json(report.to_json())
    else:
        from planner.report.terminal.inspect.profile import profile_view

        print_view(profile_view(report))
    return 0
