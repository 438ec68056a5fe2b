"""The one verdict of an imported file: its estimate and evidence with everything that its own run takes."""

from __future__ import annotations

from dataclasses import replace

from cost_models.parts.memory import TRAINER
from planner.candidates.candidate import Beyond, Candidate
from planner.imports.trials import Verdict
from planner.request.request import SearchRequest

UNPRICED = "no verdict, since not all of it is priced"
REFUSED = "does not run: the trainer refuses the file"


def of_the_file(candidate: Candidate, opinion: Verdict, *, request: SearchRequest) -> Candidate:
    """Return the candidate as the file's trainer runs it.

    Its estimate has the trainer's further memory as a part, its allowance, and the verdict of devices and host together. A
    compile of lcplan's own step counts with that memory for a trainer in JAX, and decides nothing for one in PyTorch; one of
    the trainer's own step counts as it is.
    """
    estimate, total = candidate.estimate, opinion.memory_bytes
    extra = total - int(estimate["memory_bytes"]["total"])
    parts = estimate["memory_bytes"] | {"total": total} | ({TRAINER.key: extra} if extra else {})
    ratio = estimate["uncertainty"]["memory_ratio"]
    changed = {
        "memory_bytes": parts,
        "memory_bytes_low": round(total / (1.0 + ratio)),
        "memory_bytes_high": round(total * (1.0 + ratio)),
        "allowance_bytes": opinion.allowance_bytes,
        "fits": opinion.fits,
    }
    own = request.program.runtime == "torch"
    whole = candidate.compiled is not None and bool(candidate.compiled.step_of)  # the trainer's own step has all of it
    beyond = Beyond(memory_bytes=0 if whole else extra, against=_against(opinion), compile_counts=not own)
    found = replace(candidate, estimate=estimate | changed, beyond=beyond)
    if candidate.compiled is None or candidate.compiled.total_bytes is None:
        return found
    if own:
        return replace(found, compiled=candidate.compiled.model_copy(update={"fits": None}))
    return found.with_compiled(candidate.compiled, request.budget_bytes)


def _against(opinion: Verdict) -> str:
    """The verdict against a file that the devices would hold."""
    if opinion.imported.unpriced:
        return UNPRICED
    if opinion.refusals:
        return REFUSED
    return "" if opinion.host_holds else "does not fit: the host does not hold its part"
