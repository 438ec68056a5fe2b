"""The page's sections that are words and tables: the answer, the candidates, why, and the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lcplan.formats.textfile import read_text
from lcplan.formats.units import format_bytes, format_count, format_seconds, format_tokens
from planner.candidates.candidate import Candidate
from planner.explain.explanation import Explanation
from planner.report.charts.chart import Figures
from planner.report.html.escape import copyable, element, table, text
from planner.report.html.exports import TrainerFiles
from planner.run.run_read import Run


@dataclass(frozen=True)
class Fact:
    """One key figure of the answer."""

    name: str
    value: str
    detail: str = ""


def answer(found: Explanation) -> str:
    """The top of the page: what to run, how fast it is, how much it needs, and how sure that is."""
    run, candidate = found.run, found.candidate
    won = run.winner is not None and run.winner.strategy == candidate.strategy
    heading = element("h1", text(_title(run)))
    verdict = "Best strategy" if won else "Nothing fits; this comes closest"
    label = element("p", text(candidate.strategy.label), attributes={"class": "winner" if won else "winner over"})
    facts = element("dl", *(_fact(fact) for fact in _facts(found)), attributes={"class": "facts"})
    lines = "".join(element("li", text(line)) for line in found.trouble)
    trouble = element("ul", lines, attributes={"class": "trouble", "aria-label": "Warnings"}) if lines else ""
    changes = _changes(run) if not won else ""
    inner = (
        element("p", verdict, attributes={"class": "verdict" if won else "verdict over"}) + label + facts + trouble + changes
    )
    return (
        heading
        + element("p", text(_asked(run)), attributes={"class": "asked"})
        + element("section", inner, attributes={"aria-label": "Answer", "class": "answer"})
    )


def _title(run: Run) -> str:
    request = run.request
    return f"{request.model.name} at {format_tokens(request.workload.seq_len)} tokens on {request.hardware.name}"


def _asked(run: Run) -> str:
    request = run.request
    work, hardware = request.workload, request.hardware
    devices = f"exactly {request.devices}" if request.devices else f"up to {hardware.devices}"
    chosen = "" if work.global_batch_given else ", lcplan's choice"
    return (
        f"{format_count(request.model.parameters)} parameters, {work.global_batch} sequences a step{chosen}, {devices} x "
        f"{hardware.device.name}, budget {format_bytes(request.budget_bytes)} a device, objective {request.objective}"
    )


def _facts(found: Explanation) -> list[Fact]:
    candidate = found.candidate
    best, estimate = candidate.best, candidate.estimate
    timed = candidate.timed is not None and candidate.timed.step_s is not None
    need = best.memory_bytes + estimate["allowance_bytes"]
    rate = estimate["tflop_per_s_per_device"] * estimate["step_s"] / best.step_s
    return [
        Fact("step", format_seconds(best.step_s), "timed" if timed else "modelled"),
        Fact("tokens a second", format_count(best.tokens_per_s), f"on {candidate.strategy.devices} devices"),
        Fact("TFLOP/s a device", f"{rate:.0f}", f"MFU {estimate['mfu_ratio']:.0%}, causal FLOPs"),
        Fact("memory a device", format_bytes(need), f"of {format_bytes(found.run.request.budget_bytes)}; {best.rung}"),
        Fact("device-hours a billion tokens", f"{found.cost.device_hours:,.4g}", _money(found)),
        Fact("rests on measured rates", f"{found.measured_share:.0%}", "of the modelled step"),
    ]


def _money(found: Explanation) -> str:
    parts = []
    if found.cost.price_usd is not None:
        parts.append(f"{found.cost.price_usd:,.2f} USD")
    if found.cost.energy_kwh is not None:
        parts.append(f"{found.cost.energy_kwh:,.4g} kWh of the devices")
    return ", ".join(parts)


def _fact(fact: Fact) -> str:
    detail = element("dd", text(fact.detail), attributes={"class": "detail"}) if fact.detail else ""
    return element(
        "div", element("dt", text(fact.name)), element("dd", text(fact.value), attributes={"class": "value"}), detail
    )


def _changes(run: Run) -> str:
    if not run.changes:
        return ""
    items = "".join(
        element("li", text(f"{change['change']} (step {format_seconds(change['step_s'])})")) for change in run.changes
    )
    return element("p", "What would make it fit, cheapest first:") + element("ol", items)


def candidates(run: Run) -> str:
    """The table of candidates; rows carry what the page's filters read."""
    headings = ("#", "mesh", "scheme", "remat", "backend", "microbatches", "step", "tokens/s", "memory", "fits", "rung")
    head = "".join(element("th", text(heading), attributes={"scope": "col"}) for heading in headings)
    rows = "".join(
        _candidate_row(number, candidate, won=run.winner is not None and run.winner.strategy == candidate.strategy)
        for number, candidate in enumerate(run.shown, start=1)
    )
    count = element(
        "p",
        f"{len(run.shown)} of {len(run.shown)} shown",
        attributes={"id": "shown", "role": "status", "class": "note"},
    )
    caption = element("caption", "Candidates, best first")
    inner = element(
        "table", caption, element("thead", element("tr", head)), element("tbody", rows), attributes={"id": "candidates"}
    )
    wrap = {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": "Candidates"}
    return element("section", element("h2", "Candidates"), count, element("div", inner, attributes=wrap))


def _candidate_row(number: int, candidate: Candidate, *, won: bool) -> str:
    strategy, best = candidate.strategy, candidate.best
    scheme = strategy.scheme if strategy.mesh.context > 1 else "no context axis"
    failed = any(one is not None and one.error for one in (candidate.compiled, candidate.timed))
    cells = (
        strategy.mesh.label,
        scheme,
        strategy.remat_label,
        strategy.backend,
        str(strategy.microbatches),
        format_seconds(best.step_s),
        format_count(best.tokens_per_s),
        format_bytes(best.memory_bytes),
        "failed" if failed else "yes" if best.fits else "no",
        best.rung,
    )
    attributes = {"data-scheme": scheme, "data-remat": strategy.remat, "data-fits": "yes" if best.fits else "no"}
    if won:
        attributes["class"] = "won"
    head = element("th", str(number), attributes={"scope": "row"})
    return element("tr", head, *(element("td", text(cell)) for cell in cells), attributes=attributes)


def why(found: Explanation) -> str:
    """Why the others lost, and what would have to change for another answer."""
    others = Figures(
        ("strategy", "against the winner", "why"),
        tuple(
            (
                other.candidate.strategy.label,
                f"{other.slower_ratio:+.1%}" if other.slower_ratio is not None else "-",
                "; ".join(other.says),
            )
            for other in found.others
        ),
    )
    moved = Figures(
        ("if", "is", "then the best is", "tokens/s"),
        tuple(
            (
                shift.quantity,
                shift.label,
                "nothing fits" if shift.candidate is None else "the same" if shift.same else shift.candidate.strategy.label,
                "-" if shift.candidate is None else format_count(shift.candidate.best.tokens_per_s),
            )
            for shift in found.shifts
        ),
    )
    parts = []
    if others.rows:
        parts.append(element("section", element("h2", "Why not another"), table(others, "Why the other candidates lost")))
    if moved.rows:
        heading = element("h2", "What would change the answer")
        parts.append(element("section", heading, table(moved, "The best strategy by the laws under a changed request")))
    return "".join(parts)


def basis(found: Explanation) -> str:
    """Which seconds rest on what."""
    rows = tuple(
        (
            one.part.replace("_", " "),
            format_seconds(one.seconds),
            "measured" if one.measured else "fallback" if one.rates else "law",
            "; ".join(f"{name}: {source}" for name, source in one.rates) or "launch and floor times",
        )
        for one in found.bases
    )
    hidden = tuple(
        (one.part.replace("_", " "), *(format_seconds(value) for value in (one.transfer_s, one.hidden_s, one.exposed_s)))
        for one in found.exposures
        if one.transfer_s
    )
    parts = [element("h2", "What the step waits for, and what that rests on")]
    if hidden:
        parts.append(table(Figures(("communication", "transfer", "hidden", "exposed"), hidden), "Communication of the step"))
    parts.append(table(Figures(("part", "seconds", "basis", "sources"), rows), "What each part of the step rests on"))
    return element("section", *parts)


def plan(run: Run, exports: tuple[TrainerFiles, ...]) -> str:
    """The plan file and every trainer's files, each to be copied."""
    if run.plan_file is None:
        return ""
    live = element("p", attributes={"id": "copied", "role": "status", "aria-live": "polite", "class": "note"})
    words = element("p", text(f"For each trainer, the files that lcplan export {run.plan_file} --to TRAINER writes:"))
    whole = copyable("plan-yaml", label="plan.yaml", content=read_text(run.plan_file))
    parts = [*(_export(one) for one in exports), element("details", element("summary", "plan.yaml"), whole)]
    return element("section", element("h2", "The plan"), words, *parts, live)


def _export(one: TrainerFiles) -> str:
    if one.refused:
        summary = element("summary", text(f"{one.name}: cannot run this plan"))
        return element("details", summary, element("p", text(one.refused), attributes={"class": "note"}))
    files = [
        copyable(f"export-{one.name}-{number}", label=f"{one.name}: {file}", content=content)
        for number, (file, content) in enumerate(one.files.items())
    ]
    return element("details", element("summary", text(f"{one.name}: {', '.join(one.files)}")), *files)


def notes(run: Run, extra: tuple[str, ...] = ()) -> str:
    """What the reader should know of the request and the machine it was searched on."""
    lines = [*run.notes, *extra]
    if not lines:
        return ""
    items = "".join(element("li", text(line)) for line in lines)
    return element("section", element("h2", "Notes"), element("ul", items))


def sources(request: Any) -> str:
    """Where the hardware's figures come from."""
    device = request.hardware.device
    named = [
        ("peak", f"{device.peak_flop_per_s.value / 1e12:,.4g} TFLOP/s bf16", device.peak_flop_per_s),
        ("memory", format_bytes(device.hbm_bytes.value), device.hbm_bytes),
        ("memory bandwidth", f"{device.hbm_bytes_per_s.value / 1e9:,.4g} GB/s", device.hbm_bytes_per_s),
    ]
    for link in (request.hardware.domain_link, request.hardware.network_link):
        if link is not None:
            figure = link.oneway_bytes_per_s
            named.append((link.name, f"{figure.value / 1e9:,.4g} GB/s one way a device", figure))
    rows = tuple((name, value, figure.kind, figure.source) for name, value, figure in named)
    figures = Figures(("figure", "value", "kind", "source"), rows)
    return element("section", element("h2", "The hardware's figures"), table(figures, f"Figures of {device.name} with sources"))
