"""Run the probes on the devices at hand, in one worker process, and make figures of their samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lcplan import catalog
from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.spec.hardware import HardwareSpec
from planner.calibrate.figures import Findings, Measured, findings
from planner.calibrate.fit import Timing
from planner.calibrate.sizes import Probe, probes_of
from planner.measure.targets.at_hand import gpu_names, is_same
from planner.measure.targets.toolchain import Toolchain
from planner.measure.work import worker_command
from planner.measure.workers.job import Program
from planner.measure.workers.pool import Outcome, PoolLimits, Task, run_tasks
from planner.measure.workers.process import Launch

PROBE_S = 120.0
"""A probe takes a second or two; one that hangs is ended, and its figure is missing."""
NO_LIMIT = 2**60
"""The worker has the machine for itself, and keeps its warm jax from probe to probe."""
PLATFORMS = {"gpu": "cuda", "tpu": "tpu", "cpu": "cpu"}
_KINDS = {"gpu": "gpu", "cuda": "gpu", "tpu": "tpu", "cpu": "cpu"}


@dataclass(frozen=True)
class Calibration:
    """The measured figures and their machine; ``where`` is the source of every figure."""

    base: HardwareSpec
    device: str
    where: str
    findings: Findings


def calibrate(
    hw: str | None,
    toolchain: Toolchain,
    *,
    finished: Callable[[int, int], None],
    kinds: Sequence[str] | None = None,
) -> Calibration:
    """Measure the devices at hand as a piece of hardware; without ``hw``, the catalogue's entry of this device.

    ``finished`` receives how many probes are done, of how many; ``kinds`` are the kinds of probes to run, None: all.

    Raises
    ------
    BadInputError
        The device has no entry, or is of another kind than ``hw``.
    StageFailedError
        No such devices are at hand, or not one probe ran.
    """
    asked = catalog.hardware(hw) if hw else None
    if asked is not None and asked.kind == "gpu" and not gpu_names():
        raise StageFailedError(f"{asked.name}: no such devices at hand: the driver (nvidia-smi) lists no GPU")
    launch = launch_for(asked.kind if asked else None, toolchain, devices=asked.devices if asked else 8)
    facts = _facts(launch, asked.name if asked else "any")
    base = asked or entry_of(facts)
    if _KINDS.get(facts["platform"]) != base.kind:
        raise BadInputError(f"--hw {base.name}: the devices at hand are {facts['device']}; leave --hw out, or name theirs")
    gpu = base.device.gpu
    if gpu is not None and not is_same(facts["kind"], gpu.description):
        raise BadInputError(f"--hw {base.name} has {gpu.description}; the devices at hand are {facts['device']}")
    if facts["platform"] == "cpu" and asked is None:
        launch = launch_for("cpu", toolchain, devices=base.devices)
        facts = _facts(launch, base.name)
    probes = [one for one in probes_of(base, facts["count"]) if kinds is None or one["kind"] in kinds]
    measured, failed = _measured(launch, probes, finished)
    if not measured:
        raise StageFailedError(f"{facts['device']}: not one probe ran ({failed[0] if failed else 'no reason was given'})")
    where = f"lcplan calibrate, {datetime.now(UTC).date().isoformat()}, {facts['device']}, jax {toolchain.jax}"
    found = findings(measured, base, where=where)
    warnings = (*found.warnings, *failed)
    return Calibration(base, facts["device"], where, Findings(found.rates, found.host, warnings))


def launch_for(kind: str | None, toolchain: Toolchain, *, devices: int) -> Launch:
    """A worker on the real devices of ``kind``, or on whatever jax finds."""
    variables = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    if kind is not None:
        variables["JAX_PLATFORMS"] = PLATFORMS[kind]
    if kind == "cpu":
        variables["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    return Launch(worker_command(toolchain.python, Program()), tuple(sorted(variables.items())))


def entry_of(facts: dict[str, Any]) -> HardwareSpec:
    """The catalogue's entry of a device, by the name that its driver gives it.

    Raises
    ------
    BadInputError
        The catalogue has no such device.
    """
    if facts["platform"] == "cpu":
        return catalog.hardware("cpu-host")
    for name in catalog.hardware_names():
        if name.endswith("-N"):
            continue
        spec = catalog.hardware(name)
        if spec.device.gpu is not None and is_same(facts["kind"], spec.device.gpu.description):
            return spec
    raise BadInputError(f"no hardware of the catalogue has {facts['kind']!r}; name it with --hw, or give a YAML spec")


def _facts(launch: Launch, name: str) -> dict[str, Any]:
    (outcome,) = _outcomes(launch, [{"kind": "devices"}])
    if outcome.result is None:
        words = outcome.failure.words if outcome.failure else "no answer"
        raise StageFailedError(f"{name}: no such devices at hand: {words}")
    return outcome.result


def _measured(
    launch: Launch, probes: Sequence[Probe], finished: Callable[[int, int], None]
) -> tuple[Measured, tuple[str, ...]]:
    """Timings of the probes that ran, and a line for each that did not."""
    measured: list[tuple[Probe, Timing]] = []
    failed: list[str] = []
    for number, outcome in enumerate(_outcomes(launch, probes), start=1):
        probe = outcome.task.request["probe"]
        if outcome.result is None:
            words = outcome.failure.words if outcome.failure else "no answer"
            sizes = ", ".join(f"{key}={value}" for key, value in probe.items() if key != "kind")
            failed.append(f"{probe['kind']} ({sizes}) did not run: {words}")
        else:
            measured.append((probe, Timing(tuple(outcome.result["samples"]))))
        finished(number, len(probes))
    return measured, tuple(failed)


def _outcomes(launch: Launch, probes: Sequence[Probe]) -> Iterator[Outcome]:
    tasks = [Task(launch, {"id": str(number), "probe": probe}) for number, probe in enumerate(probes)]
    yield from run_tasks(tasks, PoolLimits(jobs=1, wall_s=PROBE_S, memory_bytes=NO_LIMIT))
