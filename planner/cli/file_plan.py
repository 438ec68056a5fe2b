"""The plan of a trainer's own configuration, for the commands that show, explain or convert it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.cli.build import RequestOptions, build_request
from planner.cli.from_files import with_file
from planner.measure.targets.toolchain import Toolchain
from planner.run.toolchain_offer import offer

if TYPE_CHECKING:  # loaded with a file only
    from planner.imports.own_plan import OwnPlan


def file_plan(options: dict[str, Any], toolchain: Toolchain) -> OwnPlan:
    """The plan of the file that the options name, completed by the other options.

    Raises
    ------
    BadInputError
        The file is not read, its values contradict the options, or its strategy breaks rules.
    """
    from planner.imports.own_plan import own_plan

    merged, imported = with_file(options)
    assert imported is not None, "a file is given"
    given = {name: value for name, value in merged.items() if name in RequestOptions.model_fields}
    request = build_request(RequestOptions.model_validate(given))
    return own_plan(request, imported, offer(toolchain, request).backends)
