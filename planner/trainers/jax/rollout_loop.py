"""A rollout's plan as a module: lcplan's own prefill and decode programs in a loop over batches of prompts."""

from __future__ import annotations

from lcplan.evidence.plan import Plan
from planner.trainers.jax.module_text import ModuleText

FILE = "rollout.py"

_MODULE = '''"""{title}.

The rollout of the plan in the same folder: {batch} prompts at a time, {generate} tokens after each, by lcplan's own programs.

    python {file} --batches 2 --prompts prompts.npy --out samples.npy

Replace ``parameters`` by your checkpoint; without --prompts the prompts are random.
"""

{environment_text}
import argparse
import time
from pathlib import Path

import jax
import numpy as np
from jax.experimental import mesh_utils, multihost_utils
from jax.sharding import Mesh, NamedSharding

PROCESSES = {processes}
AXES = {axes}
SHAPE = {shape}
BATCH, PROMPT, GENERATE = {batch}, {prompt}, {generate}
KERNEL = "{kernel}"


{make_mesh}

def make_rollout(mesh):
    """lcplan's own rollout of this plan: prefill, and the decode steps."""
    import lcplan
    from strategies.rollout.step import SampleSpec, build_step

    plan = lcplan.Plan.load(Path(__file__).with_name("{plan_file}"))
    spec = SampleSpec(model=plan.request.model, workload=plan.request.workload, strategy=plan.strategy, kernel=KERNEL)
    return build_step(spec, mesh)


def programs(mesh):
    """Each program with the shapes of its arguments."""
    from strategies.rollout.prefill_step import PrefillStep

    rollout = make_rollout(mesh)
    prefill = PrefillStep(rollout)
    return [(prefill.jitted, prefill.abstract_arguments()), (rollout.jitted, rollout.abstract_arguments())]


def parameters(rollout):
    """Random parameters and an empty cache; put your checkpoint here, with the shardings ``rollout.shardings``."""
    return rollout.init(jax.random.key(0))


def rows_of(file):
    """Rows of token ids of a .npy file, one prompt each; None without a file."""
    rows = None if file is None else np.load(file, mmap_mode="r")
    if rows is not None and (rows.ndim != 2 or rows.shape[1] != PROMPT or not len(rows)):
        raise SystemExit(f"{{file}}: shape {{rows.shape}}; the plan takes rows of {{PROMPT}} token ids")
    return rows


def prompts(rollout, number, rows):
    """Token ids B/(data, fsdp) PROMPT of batch ``number``: of ``rows``, from the first again after the last; else random."""
    from strategies.rollout.step import ROWS

    if rows is None:
        return rollout.random_tokens(jax.random.fold_in(jax.random.key(1), number), (BATCH, PROMPT))
    chosen = np.asarray(rows[np.arange(number * BATCH, (number + 1) * BATCH) % len(rows)], np.int32)
    return jax.make_array_from_callback(chosen.shape, NamedSharding(rollout.mesh, ROWS), lambda part: chosen[part])


def sample(rollout, params, cache, tokens, key):
    """The cache, to be used again, and GENERATE new tokens of each sequence with their log-probabilities."""
    cache = rollout.prefill(params, cache, tokens)
    return rollout.generate(params, cache, tokens[:, -1], key=key)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--prompts", metavar="FILE", help="a .npy of token ids, one prompt per row")
    parser.add_argument("--out", metavar="FILE", help="write prompts and generated tokens to this .npy")
    parser.add_argument("--seed", type=int, default=0, help="of the tokens that are drawn")
    arguments = parser.parse_args()
    rows = rows_of(arguments.prompts)
    if PROCESSES > 1:
        jax.distributed.initialize()
    rollout, made = make_rollout(make_mesh()), []
    params, cache = parameters(rollout)
    for number in range(arguments.batches):
        start, tokens = time.perf_counter(), prompts(rollout, number, rows)
        key = jax.random.fold_in(jax.random.key(arguments.seed), number)
        cache, generated, _ = sample(rollout, params, cache, tokens, key)
        found = multihost_utils.process_allgather((tokens, generated), tiled=True)
        seconds = time.perf_counter() - start
        rate = BATCH * GENERATE / seconds
        print(f"batch {{number}}: {{BATCH * GENERATE}} tokens in {{seconds:.3f}} s, {{rate:.0f}} tokens/s", flush=True)
        made.append(np.concatenate(found, axis=1))
    if arguments.out and jax.process_index() == 0:
        np.save(arguments.out, np.concatenate(made))
        print(f"wrote {{arguments.out}}")


if __name__ == "__main__":
    main()
'''


def rollout_module(plan: Plan) -> ModuleText:
    """The module that samples."""
    work = plan.request.workload.sample
    assert work is not None, "a plan of a rollout"
    return ModuleText(FILE, _MODULE, {"batch": work.batch, "prompt": work.prompt, "generate": work.generate})
