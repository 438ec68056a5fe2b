"""``--program`` of ``lcplan estimate``: whether a file's own trainer compiles it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lcplan.formats.errors import BadInputError, StageFailedError
from planner.cli.steps.trainer_program import TRAINER
from planner.measure.targets.toolchain import Toolchain
from planner.request.request import SearchRequest
from planner.run.measuring import Bench
from planner.trainers import trainer
from planner.trainers.common.imported import Imported


class Asked(Protocol):
    """The options that decide the compiled program."""

    compile: bool
    time: bool
    slice: bool
    program: str | None
    toolchain: str | None


@dataclass(frozen=True)
class OwnProgram:
    """The program that is compiled; without a toolchain it is lcplan's own step."""

    toolchain: Toolchain | None = None
    imported: Imported | None = None
    notes: tuple[str, ...] = ()

    def bench(self, bench: Bench) -> Bench:
        """The bench that compiles this program."""
        if self.toolchain is None or self.imported is None:
            return bench
        from planner.trainer_step.bench import trainer_bench
        from planner.trainer_step.file_bench import file_bench

        return file_bench(trainer_bench(bench, self.imported.trainer), self.imported)


def own_program(asked: Asked, request: SearchRequest, imported: Imported | None) -> OwnProgram:
    """Choose the program: the trainer's own where it is asked for, or where a compiled file's trainer is installed.

    Raises
    ------
    BadInputError
        ``--program trainer`` without a file that its trainer's program can compile, or with a timing.
    StageFailedError
        The trainer is asked for and not installed.
    """
    wanted = asked.program == TRAINER
    if wanted and (imported is None or not asked.compile):
        raise BadInputError("--program trainer compiles a trainer's own file; give it with --from-maxtext FILE --compile")
    if wanted and (asked.time or asked.slice):
        raise BadInputError("--program trainer compiles and runs nothing; leave --time and --slice out")
    if imported is None or not asked.compile or asked.time or asked.slice or asked.program == "lcplan":
        return OwnProgram()
    target = trainer(imported.trainer)
    if not target.steps and not wanted:
        return OwnProgram()
    from planner.trainer_step.at_hand import trainer_toolchain

    try:
        if imported.unresolved:
            raise BadInputError(f"{imported.file}: only a shell knows {', '.join(imported.unresolved)}; write the values out")
        return OwnProgram(trainer_toolchain(imported.trainer, asked.toolchain, request.hardware), imported)
    except (BadInputError, StageFailedError) as error:
        if wanted:
            raise
        return OwnProgram(notes=(f"lcplan's own step is compiled, not {target.title}'s: {error}",))
