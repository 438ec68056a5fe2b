"""``lcplan inspect PLAN|RUN|STEP``: the executable of a whole step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.formats.textfile import write_text
from planner.cli.output import print_json, print_view
from planner.cli.steps.inspect_options import foreign
from planner.fits.subject import Asked, Subject, read_subject
from planner.inspect.part import parse_flags
from planner.inspect.program import Looked, look
from planner.measure.targets.toolchain import probe


def show_program(options: dict[str, Any]) -> int:
    """Compile the step of a plan or a step file, and print all facts of its executable.

    Raises
    ------
    BadInputError
        An option of a part, no such file, or several strategies of a step file.
    StageFailedError
        The compile failed, or a file cannot be written.
    """
    given = [*filter(None, [options["kind"]]), *foreign(options, "step")]
    if given:
        raise BadInputError(f"{', '.join(given)}: for `inspect part`; {options['what']} has its own step")
    names = ("hw", "step", "seq", "global_batch", "devices", "knob")
    asked = Asked(Path(options["what"]), mesh=options["mesh"] or None, **{name: options[name] for name in names})
    subject = read_subject(asked)
    flags = [parse_flags(text) for text in options["flag"]]
    ways = [(), *flags] if len(flags) == 1 else flags or [()]
    found = look(subject, ways, toolchain=probe(options["toolchain"]), text=options["hlo"] is not None)
    if options["hlo"] is not None:
        _write(options["hlo"], found[-1].text)
    if options["page"] is not None:
        _write_page(options["page"], subject, found[-1])
    if options["output"] == "json":
        document = {"schema_version": 1, "subject": subject.name, "hardware": subject.hardware.name}
        print_json(document | {"variants": [one.to_json() for one in found]})
    else:
        from planner.report.terminal.steps.program import program_view

        print_view(program_view(subject.name, found))
    return 0


def _write_page(file: Path, subject: Subject, found: Looked) -> None:
    """Write the page of an executable.

    Raises
    ------
    BadInputError
        The file is a folder.
    StageFailedError
        The report's packages are missing, or the file cannot be written.
    """
    from planner.report.html.chart_page import write_page
    from planner.report.html.inside import inside_page

    if file.is_dir():
        raise BadInputError(f"--page {file}: is a folder; give a file, for example {file / 'inside.html'}")
    write_page(inside_page(subject.name, found, subject.hardware), file)


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise StageFailedError(f"{path}: {error.strerror or error}") from None
