"""Which flags a toolchain's XLA and libtpu take: asked of their own parsers, which end the process on one they do not know."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from planner.measure.targets.compile_option import Verdict
from planner.measure.workers.process import clean_environment

Variable = Literal["XLA_FLAGS", "LIBTPU_INIT_ARGS"]
PATIENCE_S = 60.0

_ASK: dict[Variable, str] = {
    "XLA_FLAGS": "import jax; jax.devices('cpu')",
    "LIBTPU_INIT_ARGS": "from jax.experimental import topologies; topologies.get_topology_desc('v5e:2x2', 'tpu')",
}
"""Code that makes each parser read its variable, without a device."""
_UNKNOWN: dict[Variable, re.Pattern[str]] = {
    "XLA_FLAGS": re.compile(r"Unknown flags? in XLA_FLAGS: (.*)"),
    "LIBTPU_INIT_ARGS": re.compile(r"Unknown command line flag '(.*?)'"),
}
_ILLEGAL = re.compile(r"Illegal value '(.*?)' specified for flag '(.*?)'")
_NO_SUCH = "lcplan_no_such_flag"
_NEAR = re.compile(r"Unknown command line flag '(.*?)'\. Did you mean: (\w+)")
_ON = "gone, since XLA does so by itself; leave it out"
GONE: Mapping[str, str] = MappingProxyType(
    {
        "xla_gpu_graph_level": "gone; xla_gpu_enable_command_buffer is in its place (openxla/xla#30187)",
        "xla_gpu_simplify_all_fp_conversions": f"{_ON} (NVIDIA/JAX-Toolbox#1004)",
        "xla_gpu_enable_triton_softmax_fusion": f"{_ON} (NVIDIA/JAX-Toolbox#1010)",
        **{
            f"xla_gpu_enable_async_{op}": f"{_ON} (NVIDIA/JAX-Toolbox#1010)"
            for op in ("all_gather", "all_reduce", "reduce_scatter", "collective_permute", "all_to_all", "collectives")
        },
    }
)
"""The successors of flags that guides of 2023 and 2024 still name and that XLA no longer knows."""


@dataclass(frozen=True)
class FlagParser:
    """The parsers of one Python's packages."""

    python: str

    def verdicts(self, variable: Variable, words: tuple[str, ...]) -> dict[str, Verdict]:
        """Return for each flag True, or why a process with it in this variable ends before it starts."""
        asked = tuple(word for word in words if word.startswith("--"))
        ended, said = self._said(variable, asked) if asked else (False, "")
        unknown = _names(said, variable)
        illegal = {name for _, name in _ILLEGAL.findall(said)}
        if ended and not unknown and not illegal:  # a value that XLA does not take: it prints its flags, not which one
            illegal = {_name(word) for word in asked if self._said(variable, (word,))[0]}
        why = self._unknown(variable, unknown, near=dict(_NEAR.findall(said))) if unknown else {}
        why |= dict.fromkeys(illegal, f"{variable} does not take this value, and ends the process")
        file = f"does not start with --, so that {variable} is read as a file's name"
        return {word: why.get(_name(word), True) if word in asked else file for word in words}

    def _unknown(self, variable: Variable, names: set[str], *, near: Mapping[str, str]) -> dict[str, str]:
        """Return a hint for each unknown flag: the other variable knows it, it was replaced, or the nearest known flag."""
        other: Variable = "LIBTPU_INIT_ARGS" if variable == "XLA_FLAGS" else "XLA_FLAGS"
        marked = (_NO_SUCH, *sorted(names))  # where no other parser is installed, none refuses the first of these
        nowhere = _names(self._said(other, tuple(f"--{name}" for name in marked))[1], other)
        elsewhere = names - nowhere if _NO_SUCH in nowhere else set()
        ways = {name: f"did you mean --{near[name]}?" if name in near else GONE.get(name, "leave it out") for name in names}
        ways |= dict.fromkeys(elsewhere, f"it belongs in {other}")
        return {name: f"unknown, and ends the process; {way}" for name, way in ways.items()}

    def _said(self, variable: Variable, words: tuple[str, ...]) -> tuple[bool, str]:
        """Whether the process ends, and the parser's output."""
        variables = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
        environment = clean_environment(tuple((variables | {variable: " ".join(words)}).items()))
        done = subprocess.run(
            [self.python, "-c", _ASK[variable]],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
        return done.returncode != 0, done.stdout + done.stderr


def _names(said: str, variable: Variable) -> set[str]:
    """Flags that the parser calls unknown."""
    return {_name(word) for found in _UNKNOWN[variable].findall(said) for word in found.split()}


def _name(word: str) -> str:
    return word.removeprefix("--").partition("=")[0]
