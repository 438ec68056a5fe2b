"""One rank of a node's best long-context strategies: its time on the card, its peak beside a deviceless compile's memory.

``run`` times a few layers and draws them out to all, as ``lcplan estimate --slice`` does; ``whole`` runs all of them.

The strategies are those that a rack of GB200 takes, a context axis with or without a tensor axis and one sequence at a time,
cut down to the eight devices of this card's node: for each length the best of that space by the laws.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from lcplan import catalog
from lcplan.formats.units import format_tokens
from lcplan.spec.workload import Workload
from one_gpu.card import Card
from planner.candidates.candidate import Candidate
from planner.measure.targets.target import Target, target_for
from planner.measure.targets.toolchain import probe
from planner.measure.timing.time_slice import DEPTHS
from planner.measure.work import kernel_for
from planner.measure.workers.job import CompileJob
from planner.measure.workers.pool import PoolLimits
from planner.request.filters import Filters, parse_mesh
from planner.request.request import SearchRequest, make_request
from planner.run.measuring import Bench
from planner.workloads.points import analyse

LENGTHS = (65536, 131072)
TINY_LENGTHS = (512,)
BEST = 5
WALL_S = 150.0
"""One slice: two compiles and a few steps."""


def request(seq_len: int, card: Card) -> SearchRequest:
    """One sequence of this length on the eight devices of a node."""
    hardware = card.spec
    host = hardware.kind == "cpu"
    workload = Workload(seq_len=seq_len, global_batch=1, precision="fp32" if host else "bf16")
    return make_request(
        {
            "model": catalog.model("llama-tiny" if card.tiny else "llama3-8b"),
            "hardware": hardware,
            "workload": workload,
            "budget_bytes": hardware.usable_bytes,
            "devices": 8,
            "filters": Filters(mesh=parse_mesh("context=2..8"), attention_block=(0,)),
        }
    )


@lru_cache(maxsize=1)
def candidates(card: Card) -> dict[str, tuple[SearchRequest, Candidate]]:
    """By name, the best of each length, the shorter first."""
    found = {}
    for seq_len in TINY_LENGTHS if card.tiny else LENGTHS:
        asked = request(seq_len, card)
        backend = "host" if asked.hardware.kind == "cpu" else "nccl"
        best = islice(analyse(asked, (backend,)).survivors(), 1 if card.tiny else BEST)
        found |= {f"{format_tokens(seq_len)}-{place}": (asked, one) for place, one in enumerate(best, start=1)}
    return found


def ids(card: Card) -> list[str]:
    """Names of the strategies: their length and their place."""
    return list(candidates(card))


def run(wanted: Sequence[str], card: Card) -> Iterator[dict[str, Any]]:
    """A row for each strategy's slice as it is timed."""
    for name in wanted:
        asked, candidate = candidates(card)[name]
        bench = Bench(asked, probe(), PoolLimits(jobs=1, wall_s=WALL_S, memory_bytes=2**60))
        (timed,) = (one.timed for one in bench.time_slices([candidate]))
        if timed is None or timed.error:
            raise RuntimeError(timed.error if timed else "no timing")
        yield {
            "id": name,
            "strategy": candidate.strategy.model_dump(mode="json"),
            "label": candidate.strategy.label,
            "modelled_step_s": candidate.estimate["step_s"],
            **timed.model_dump(mode="json", include={"step_s", "rank_s", "added_s", "extrapolation", "samples", "peak_bytes"}),
        }


def whole(wanted: Sequence[str], card: Card) -> Iterator[dict[str, Any]]:
    """A row for each strategy's slice with all of its layers on the card: what two depths are drawn out to."""
    from planner.measure.timing.time_full import Sampling, time_step

    for name in wanted:
        asked, candidate = candidates(card)[name]
        facts = time_step(_slice(asked, candidate, layers=asked.model.layers), Sampling(warmup=1, least=2, most=2))
        if facts.get("error"):
            raise RuntimeError(facts["error"])
        yield {"id": name, "layers": asked.model.layers, **{key: facts[key] for key in ("step_s", "samples", "peak_bytes")}}


def compiled(wanted: Sequence[str], card: Card) -> Iterator[dict[str, Any]]:
    """A row for each strategy's slice as it is compiled for the card without touching it, at both depths."""
    for name in wanted:
        asked, candidate = candidates(card)[name]
        layers = asked.model.layers
        few = min(DEPTHS[-1], layers)
        yield {
            "id": name,
            "layers": [few, layers],
            "compiled_bytes": [_compiled_bytes(asked, candidate, layers=depth) for depth in (few, layers)],
            "allowance_bytes": int(asked.hardware.allowance.runtime_bytes.value),
        }


def _target(asked: SearchRequest, candidate: Candidate) -> Target:
    return target_for(candidate.strategy, asked.hardware, toolchain=probe())


def _slice(asked: SearchRequest, candidate: Candidate, *, layers: int) -> Any:
    from strategies.inputs.step_spec import StepSpec
    from strategies.train.rank_slice import build_slice

    job = CompileJob(model=asked.model, hardware=asked.hardware, workload=asked.workload, strategy=candidate.strategy)
    target = _target(asked, candidate)
    model = asked.model.model_copy(update={"layers": layers})
    kernel = kernel_for(job, target, toolchain=probe())
    return build_slice(StepSpec(model, asked.workload, candidate.strategy, kernel, platform=target.kind))


def _compiled_bytes(asked: SearchRequest, candidate: Candidate, *, layers: int) -> int:
    """What the executable of a slice needs by its own account [bytes]."""
    import jax
    from jax.sharding import SingleDeviceSharding

    step = _slice(asked, candidate, layers=layers)
    here = SingleDeviceSharding(_device(_target(asked, candidate)))
    shapes = jax.eval_shape(step.init, jax.random.key(0)), jax.eval_shape(step.example_batch, jax.random.key(0))
    placed = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), shapes)
    sizes = step.jitted.lower(*placed).compile().memory_analysis()
    need = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes - sizes.alias_size_in_bytes
    return int(need)


def _device(target: Target) -> Any:
    """A device of the target's kind that need not be here."""
    import jax
    from jax.experimental import topologies

    if target.platform == "cpu":
        return jax.devices()[0]
    assert os.environ.get("JAX_PLATFORMS") == "cpu", "a deviceless compile stays off the card"
    described = topologies.get_topology_desc(platform="cuda", target_config=target.target_config, topology="1x1x1")
    return described.devices[0]
