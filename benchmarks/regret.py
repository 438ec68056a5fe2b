"""Time every strategy of a small space on host devices, then ask where the choice falls: ``python benchmarks/regret.py``.

``collect`` compiles and times all of it (about a quarter of an hour on two quiet cores; interrupt it when you like, the same
command goes on) and keeps every sample in benchmarks/data/regret.json. ``page`` holds today's laws against these timings and
prints the figures of docs/regret.md. ``collect --compile-only`` fills the compilation cache, so that the timing itself can wait
for a quiet hour.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lcplan import catalog
from lcplan.spec.workload import Workload
from lcplan.strategy import Strategy
from planner.candidates.candidate import Candidate
from planner.request.filters import Filters, parse_mesh
from planner.request.request import SearchRequest, make_request
from planner.validate.scoring.score import rank_correlation
from planner.workloads.points import analyse
from planner.workloads.pricing import price

DATA = Path(__file__).parent / "data" / "regret.json"
CHOICES = (1, 3, 5, 10)
"""Timings after which the choice is looked at."""
SPACE = Filters(mesh=parse_mesh("data=1"), remat=("full", "save-all"), microbatches=(1,), attention_block=(0,))
"""Every mesh of fsdp, context and tensor over 8 devices, every scheme, two remat policies, attention in its own tiles."""


def request() -> SearchRequest:
    """The question: 4 layers, 256 wide, 8 x 1024 tokens in fp32 (a host emulates bf16) on 8 host devices."""
    hardware = catalog.hardware("cpu-host")
    return make_request(
        {
            "model": catalog.model("llama-tiny"),
            "hardware": hardware,
            "workload": Workload(seq_len=1024, global_batch=8, precision="fp32"),
            "budget_bytes": hardware.usable_bytes,
            "devices": 8,
            "filters": SPACE,
        }
    )


def strategies() -> list[Strategy]:
    """Every strategy of the space that breaks no rule, in an order of its own, so that a drift of the host favours none."""
    table = analyse(request(), ("host",)).table
    found = [table.strategy(row) for row in range(len(table))]
    random.Random(0).shuffle(found)  # noqa: S311 (no secret)
    return found


@dataclass(frozen=True)
class Scored:
    """Estimates beside timings. ``truth_s`` is the median of a strategy's samples [s]."""

    candidates: tuple[Candidate, ...]
    truth_s: tuple[float, ...]

    @cached_property
    def by_estimate(self) -> list[float]:
        """Timings [s] in the order in which the laws would have them taken."""
        order = sorted(range(len(self.truth_s)), key=lambda row: self.candidates[row].estimate["step_s"])
        return [self.truth_s[row] for row in order]

    def regret(self, timings: int) -> float:
        """How much slower than the best of all the best of the first ``timings`` is; a ratio."""
        return min(self.by_estimate[:timings]) / min(self.truth_s) - 1.0

    def by_chance(self, timings: int, *, draws: int = 2000) -> float:
        """The same of ``timings`` strategies picked at random: the mean of many draws."""
        dice = random.Random(0)  # noqa: S311 (no secret)
        best = min(self.truth_s)
        return statistics.fmean(min(dice.sample(self.truth_s, timings)) / best - 1.0 for _ in range(draws))

    @property
    def correlation(self) -> float:
        """Spearman's, of estimate and timing."""
        return rank_correlation([one.estimate["step_s"] for one in self.candidates], self.truth_s)


def score(rows: Sequence[dict[str, Any]]) -> Scored:
    """Today's laws against kept timings."""
    asked = request()
    candidates = tuple(price(asked, Strategy.model_validate(row["strategy"])) for row in rows)
    return Scored(candidates, tuple(statistics.median(row["samples"]) for row in rows))


def read(path: Path = DATA) -> dict[str, Any]:
    """What was kept; empty where nothing was yet."""
    if not path.exists():
        return {"rows": []}
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept


def _key(strategy: Strategy | dict[str, Any]) -> str:
    return Strategy.model_validate(strategy).model_dump_json()


def collect(path: Path, cache: Path, *, compile_only: bool, quick: bool) -> None:
    """Time what is missing, writing after every row."""
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={request().devices}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # the cache's loader lists every feature of the processor
    import jax

    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if compile_only:
        for number, strategy in enumerate(strategies(), start=1):
            step = _step(strategy)
            step.jitted.lower(*step.abstract_arguments()).compile()
            print(number, strategy.label, flush=True)
        return
    known = read(path)
    done = {_key(row["strategy"]) for row in known["rows"]}
    for row in _timed([one for one in strategies() if _key(one) not in done], quick=quick):
        known["rows"].append(row)
        _keep(path, known)
        print(len(known["rows"]), f"{statistics.median(row['samples']):.3f} s", row["label"], flush=True)


def _keep(path: Path, known: dict[str, Any]) -> None:
    import jax

    from planner.measure.targets.host import host_name

    facts = {"jax": jax.__version__, "host": host_name(), "model": request().model.name}
    rows = ",\n".join(json.dumps(row) for row in known["rows"])
    part = path.with_suffix(".part")
    path.parent.mkdir(exist_ok=True)
    part.write_text(json.dumps(facts)[:-1] + f', "rows": [\n{rows}\n]}}\n')
    part.replace(path)


def _timed(todo: list[Strategy], *, quick: bool) -> Iterator[dict[str, Any]]:
    import jax

    from planner.measure.timing.time_full import SAMPLING, Sampling, time_step

    sampling = Sampling(least=1, most=1) if quick else SAMPLING
    for strategy in todo:
        begun, load, busy = time.monotonic(), os.getloadavg()[0], time.process_time()
        facts = time_step(_step(strategy), sampling)
        if facts.get("error"):
            raise SystemExit(f"{strategy.label}: {facts['error']}")
        yield {
            "label": strategy.label,
            "strategy": strategy.model_dump(mode="json"),
            "samples": [round(sample, 5) for sample in facts["samples"]],
            "loss": facts["loss"],
            "load": load,
            "busy_s": round(time.process_time() - busy, 3),
            "seconds": round(time.monotonic() - begun, 1),
        }
        jax.clear_caches()


def _step(strategy: Strategy) -> Any:
    import jax

    from strategies.parallel.mesh import build_mesh
    from strategies.train.step import StepSpec, build_step

    asked = request()
    spec = StepSpec(model=asked.model, workload=asked.workload, strategy=strategy, kernel="blockwise")
    return build_step(spec, build_mesh(strategy, jax.devices()[: strategy.devices]))


def page(rows: Sequence[dict[str, Any]]) -> str:
    """The tables of docs/regret.md."""
    scored = score(rows)
    spread = max(scored.truth_s) / min(scored.truth_s) - 1.0
    noise = statistics.median((max(row["samples"]) - min(row["samples"])) / statistics.median(row["samples"]) for row in rows)
    lines = [
        f"{len(rows)} strategies; the slowest takes {1 + spread:.2f} times the fastest's {min(scored.truth_s):.3f} s;"
        f" a strategy's own samples spread over {100 * noise:.1f} % (median).",
        "",
        "| timings | lcplan's choice is slower than the best of all by | choice by chance |",
        "|---|---|---|",
        *(f"| {k} | {100 * scored.regret(k):.1f} % | {100 * scored.by_chance(k):.1f} % |" for k in CHOICES),
        "",
        f"Spearman's rank correlation of estimate and timing: {scored.correlation:.2f}.",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Collect, or print the page's tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["collect", "page"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, default=Path("lcplan-runs") / "regret-cache")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one sample a strategy: a first look")
    given = parser.parse_args(arguments)
    if given.action == "page":
        print(page(read(given.data)["rows"]))
    else:
        collect(given.data, given.cache, compile_only=given.compile_only, quick=given.quick)


if __name__ == "__main__":
    main(sys.argv[1:])
