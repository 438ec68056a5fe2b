"""Knobs of trainers: the values that several trainers run."""

from __future__ import annotations

from typing import get_args

from lcplan.strategy import BACKENDS, COLLECTIVE_MATMULS, MOE_DISPATCHES, SCHEMES, Dtype
from lcplan.strategy.remat import REMAT_POLICIES
from lcplan.strategy.state_knobs import MomentsDtype
from planner.measure.targets.backends import FIRST_GPU_TARGET, GPU_BACKENDS, backend_verdict
from planner.measure.targets.compile_option import version_of
from planner.trainers.common.interface import Knob, KnobName

DTYPES = get_args(Dtype)
MOMENTS = get_args(MomentsDtype)


def as_is(*values: str) -> dict[str, tuple[str, ...]]:
    """Values that the trainer runs exactly."""
    return {value: (value,) for value in values}


def instead(first: str, *others: str, of: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The values ``of`` run as ``first``, or as one of ``others`` where that does not fit."""
    return dict.fromkeys(of, (first, *others))


def besides(*policies: str) -> tuple[str, ...]:
    """All remat policies but these."""
    return tuple(name for name in REMAT_POLICIES if name not in policies)


def other_schemes(*schemes: str) -> tuple[str, ...]:
    """All context schemes but these."""
    return tuple(name for name in SCHEMES if name not in schemes)


def always(dtype: str, why: str) -> Knob:
    """A dtype that the trainer does not let its files choose."""
    return Knob(instead(dtype, of=DTYPES), why)


def either_dtype() -> Knob:
    """A dtype that the trainer's files choose."""
    return Knob(as_is(*DTYPES))


def moments(*dtypes: str, why: str) -> Knob:
    """The dtypes of moments that the trainer's files choose; the last runs in place of all others."""
    return Knob(as_is(*dtypes) | instead(dtypes[-1], of=tuple(one for one in MOMENTS if one not in dtypes)), why)


def all_or_nothing(why: str) -> Knob:
    """Checkpointing that is on or off: each policy but ``full`` is off where that fits."""
    return Knob(as_is("full") | instead("save-all", "full", of=besides("full")), why)


def any_dispatch() -> Knob:
    """Every dispatch of tokens to experts."""
    return Knob(as_is(*MOE_DISPATCHES))


def torch_knobs(label: str) -> dict[KnobName, Knob]:
    """The knobs that every PyTorch trainer has alike."""
    nccl = as_is("nccl", "rccl", "ici", "host") | instead("nccl", of=_other_backends())
    return {
        "backend": Knob(nccl, "torch's process groups go by NCCL"),
        "collective_matmul": _whole_products(label),
        "moe_dispatch": any_dispatch(),
    }


def jax_knobs(label: str, jax: str) -> dict[KnobName, Knob]:
    """The knobs that every trainer in JAX has alike, under its version ``jax``."""
    missing = tuple(name for name in _other_backends() if backend_verdict(name, jax) is not True)
    lack = "was not tried with" if version_of(jax) < FIRST_GPU_TARGET else "does not have"
    why = f"jax {jax}, which {label} runs on here, {lack} this backend (--for-jax and export's --jax state another)"
    backends = Knob({**as_is(*BACKENDS), **instead("nccl", of=missing)}, why)
    return {"backend": backends, "collective_matmul": _whole_products(label), "moe_dispatch": any_dispatch()}


def _other_backends() -> tuple[str, ...]:
    return tuple(name for name in GPU_BACKENDS if name not in ("nccl", "rccl"))


def _whole_products(label: str) -> Knob:
    """The products over tensor of a trainer that has no collective matmul of its own."""
    ways = instead("off", of=COLLECTIVE_MATMULS)
    return Knob(ways, f"lcplan knows no key by which {label} cuts its products into pieces")
