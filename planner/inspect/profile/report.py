"""Report: a profiled step next to the plan that ran, part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cost_models.parts.part import TimeKind
from cost_models.parts.time import STEP_TIME
from lcplan.formats.errors import BadInputError
from planner.candidates.candidate import Candidate
from planner.explain.traffic import Transfer, transfers
from planner.inspect.profile.attribute import COMMUNICATION, TRANSFERS, UNNAMED, Names
from planner.inspect.profile.events import Program, profile_files, read_programs
from planner.inspect.profile.step_profile import StepProfile, profile_of
from planner.measure.hlo.groups import MeshView
from planner.run.run_read import Run, read_run
from planner.space.analysis import setting_of

LABELS = {part.key: part.label for part in STEP_TIME} | {
    COMMUNICATION: "communication",
    UNNAMED: "operations without a kind",
    TRANSFERS: "launches, host and idle",
}


@dataclass(frozen=True)
class Row:
    """One part of the step [s]; None: not predicted, or not to be seen in a profile."""

    key: str
    kind: TimeKind
    predicted_s: float | None
    measured_s: float | None
    hidden_s: float = 0.0
    """Measured time of communication that compute hides."""


@dataclass(frozen=True)
class ProfileReport:
    """A profile, its files, and the plan that ran."""

    files: tuple[Path, ...]
    profile: StepProfile
    others: tuple[str, ...]
    """Programs of the profile that were left out."""
    run: Run | None = None
    candidate: Candidate | None = None
    transfers: tuple[Transfer, ...] = ()
    """The plan's collectives by the cost model."""

    @property
    def predicted_s(self) -> float | None:
        """The cost model's step [s]."""
        return None if self.candidate is None else float(self.candidate.estimate["step_s"])

    def rows(self) -> tuple[Row, ...]:
        """Return the parts in the order of ``time_s``; idle time is with the host's."""
        return tuple(self._rows())

    def _rows(self) -> Iterator[Row]:
        predicted = {} if self.candidate is None else self.candidate.estimate["time_s"]
        for part in STEP_TIME:
            found = self.profile.parts.get(part.key)
            measured = found.exposed_s if found else 0.0
            if part.key == TRANSFERS:
                measured += self.profile.idle_s
            expected = predicted.get(part.key) if self.candidate else None
            if measured or expected:
                hidden = found.total_s - found.exposed_s if found and part.kind == "communication" else 0.0
                seen = None if part.key == "contention" else measured
                yield Row(part.key, part.kind, expected, seen, max(0.0, hidden))  # type: ignore[arg-type]
        for key in (COMMUNICATION, UNNAMED):
            if found := self.profile.parts.get(key):
                hidden = max(0.0, found.total_s - found.exposed_s) if key == COMMUNICATION else 0.0
                yield Row(key, "communication" if key == COMMUNICATION else "compute", None, found.exposed_s, hidden)

    def to_json(self) -> dict[str, Any]:
        """Return the document."""
        rows = [
            {
                "part": row.key,
                "predicted_s": row.predicted_s,
                "measured_s": row.measured_s,
                "hidden_s": row.hidden_s,
            }
            for row in self.rows()
        ]
        return {
            "schema_version": 1,
            "files": [str(path) for path in self.files],
            "profile": self.profile.to_json(),
            "strategy": None if self.candidate is None else self.candidate.strategy.model_dump(mode="json"),
            "predicted_step_s": self.predicted_s,
            "comparison": rows,
            "other_programs": list(self.others),
        }


def report_of(profile: Path, *, plan: Path | None = None, program: str | None = None) -> ProfileReport:
    """Read a profile; with a plan or a run's folder, name its collectives and predict its parts.

    Parameters
    ----------
    profile
        The folder that ``jax.profiler`` wrote, or one ``*.xplane.pb``.
    plan
        A plan file or the folder of a search; None: only the profile itself.
    program
        The program's name; None: the one with most time.

    Raises
    ------
    BadInputError
        No profile, no such program, or the plan ran on another number of devices.
    """
    files = profile_files(profile)
    programs = read_programs(files)
    chosen = _chosen(programs, program, where=str(profile))
    others = tuple(one.name for one in programs if one is not chosen)
    if plan is None:
        return ProfileReport(files, profile_of(chosen, Names()), others)
    run = read_run(plan)
    candidate = run.chosen
    if candidate is None:
        raise BadInputError(f"{plan}: the run has no plan to compare with")
    strategy = candidate.strategy
    mesh = MeshView(strategy.mesh_axes, strategy.mesh_shape)
    moved = transfers(setting_of(run.request), candidate)
    found = profile_of(chosen, Names(mesh, moved))
    _check_devices(found, candidate, plan=plan)
    return ProfileReport(files, found, others, run, candidate, moved)


def _chosen(programs: tuple[Program, ...], name: str | None, *, where: str) -> Program:
    if name is None:
        return programs[0]
    found = next((one for one in programs if one.name == name), None)
    if found is None:
        known = ", ".join(one.name or "(no name)" for one in programs[:8])
        raise BadInputError(f"--program {name}: not in {where}; it has {known}")
    return found


def _check_devices(profile: StepProfile, candidate: Candidate, *, plan: Path) -> None:
    seen, planned = len(profile.devices), candidate.strategy.devices
    if seen > planned:
        raise BadInputError(f"{plan}: the plan takes {planned} devices, and the profile has {seen}; give the plan that ran")
