"""A command that a script would run, with its expanded words and environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from planner.shell.words.syntax import names
from planner.shell.words.unknown import Word

LAUNCHERS = names(
    "sudo env nohup time exec srun mpirun mpiexec numactl torchrun python python3 accelerate deepspeed uv poetry ray run launch"
)
"""Programs that run another one, which their words name."""


@dataclass(frozen=True)
class Command:
    """One command."""

    words: tuple[Word, ...]
    line: int
    environment: Mapping[str, Word] = field(default_factory=dict)
    """Variables of the script at that place, and those before the command's words."""
    directives: tuple[str, ...] = ()
    """Options of ``#SBATCH`` lines of the script."""
    outer: Command | None = None
    """The command whose word this one is part of, as of ``srun bash -c "..."``."""
    stdin: Word | None = None
    """Its here-document."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the words."""
        return tuple(word.text for word in self.words)

    @property
    def program_at(self) -> int:
        """The place of the program's own first argument: behind a script or module that Python runs, else behind the name."""
        texts = self.texts
        for index, text in enumerate(texts):
            if text.endswith((".py", ".py'", ".pyz")) and not text.startswith("-"):
                return index + 1
            if text == "-m" and index + 1 < len(texts) and not texts[index + 1].startswith("torch.distributed"):
                return index + 2
        return next((index + 1 for index, text in enumerate(texts) if text not in LAUNCHERS), len(texts))

    @property
    def program(self) -> str:
        """The script, module or name of the program."""
        return self.texts[self.program_at - 1] if self.words else ""

    @property
    def arguments(self) -> tuple[Word, ...]:
        """The program's own words."""
        return self.words[self.program_at :]

    @property
    def chain(self) -> Iterable[Command]:
        """This command and the commands that it is part of, from inside out."""
        found: Command | None = self
        while found is not None:
            yield found
            found = found.outer
