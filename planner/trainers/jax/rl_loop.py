"""The plan of an RL iteration as a module: rollout, reward, advantages and update in a loop, by lcplan's own programs."""

from __future__ import annotations

from lcplan.evidence.plan import Plan
from planner.trainers.jax.module_text import ModuleText

FILE = "rl_loop.py"

_MODULE = '''"""{title}.

The RL iteration of the plan in the same folder, by lcplan's own programs: {batch} samples of {prompt} + {generate} tokens,
rewards, advantages relative to the other samples of a prompt, and a policy update.

    python {file} --iterations 3

Yours to replace: ``prompts``, ``rewards`` and ``initial_state``. The reward here is a toy: the share of even token ids.
"""

{environment_text}
import argparse
import time
from pathlib import Path

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh

PROCESSES = {processes}
AXES = {axes}  # of the update; the rollout has a mesh of its own over the same devices
SHAPE = {shape}
BATCH, PROMPT, GENERATE = {batch}, {prompt}, {generate}
GROUP = {group}  # samples of one prompt
KERNEL = "{kernel}"


{make_mesh}

def make_iteration(mesh, learning_rate=None):
    """lcplan's own programs of this plan: move of the parameters, rollout, scorings, update."""
    import lcplan
    from strategies.rl.iteration import IterationSpec, build_iteration

    plan = lcplan.Plan.load(Path(__file__).with_name("{plan_file}"))
    spec = IterationSpec(plan.request.model, plan.request.workload, plan.strategy, KERNEL, learning_rate or {learning_rate})
    return build_iteration(spec, mesh)


def programs(mesh):
    """Each program with the shapes of its arguments."""
    return make_iteration(mesh).programs()


def initial_state(iteration):
    """The policy with its optimizer, and the reference model where the plan has one; put your checkpoint here."""
    return iteration.init(jax.random.key(0))


def prompts(number):
    """Token ids BATCH PROMPT of iteration ``number`` and the tokens of each; GROUP rows in a row have the same prompt."""
    drawn = np.random.default_rng(number).integers(0, {vocab}, (BATCH // GROUP, PROMPT))
    return np.repeat(drawn, GROUP, axis=0), np.full(BATCH, PROMPT)


def rewards(prompts, completions):
    """The reward of each completion. ``completions``: generated token ids of each sample, up to its end."""
    return np.array([np.mean(tokens % 2 == 0) for tokens in completions])


def main():
    from strategies.rl.iteration import advantages_of
    from strategies.rl.sequences import Sequences

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--updates", type=int, default=1, help="updates of each iteration, all on its whole batch")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--stop-token", type=int, help="token id that ends a completion")
    arguments = parser.parse_args()
    if PROCESSES > 1:
        jax.distributed.initialize()
    iteration = make_iteration(make_mesh(), arguments.learning_rate)
    state, reference = initial_state(iteration)
    for number in range(arguments.iterations):
        start, (given, lengths) = time.perf_counter(), prompts(number)
        key = jax.random.fold_in(jax.random.key(1), number)
        equal = bool((lengths == PROMPT).all())
        tokens, log_probs = iteration.sample(state.params, given, key=key, lengths_B=None if equal else lengths)
        sampled = Sequences.of(given, tokens, lengths_B=lengths, stop_token=arguments.stop_token)
        reward = rewards(given, [row[counts] for row, counts in zip(tokens, sampled.counts_BG)])
        batch = iteration.batch((state, reference), sampled, log_probs, advantages_of(reward, group=GROUP))
        for _ in range(arguments.updates):
            state, metrics = iteration.learn(state, batch)
        seconds, loss = time.perf_counter() - start, float(metrics.loss)
        print(f"iteration {{number}}: reward {{reward.mean():.4f}}, loss {{loss:.4f}}, {{seconds:.3f}} s", flush=True)


if __name__ == "__main__":
    main()
'''

LEARNING_RATE = "1e-6"
"""TRL's default for GRPO (GRPOConfig.learning_rate)."""
LARGEST_GROUP = 8
"""Samples of one prompt in TRL's GRPOConfig (num_generations)."""


def rl_module(plan: Plan) -> ModuleText:
    """The module that samples and updates."""
    work = plan.request.workload.sample
    assert work is not None, "a plan of an iteration"
    group = max(size for size in range(1, LARGEST_GROUP + 1) if work.batch % size == 0)
    sizes = {"batch": work.batch, "prompt": work.prompt, "generate": work.generate, "group": group}
    return ModuleText(FILE, _MODULE, sizes | {"vocab": plan.request.model.vocab, "learning_rate": LEARNING_RATE})
