"""The policy's own log-probabilities of sampled tokens, before it is updated."""

from __future__ import annotations

from jax.sharding import Mesh

from strategies.inputs import step_spec
from strategies.rl.score_step import ScoreStep, build_score
from strategies.rl.update_step import StepSpec

__all__ = ["StepSpec", "build_step"]


def build_step(spec: step_spec.StepSpec, mesh: Mesh) -> ScoreStep:
    """The scoring of an iteration's sequences (see ``build_score``)."""
    return build_score(spec, mesh, rounded=False)
