"""Environment and launch of trainers that run on jax: flags that its version knows, and nothing that would abort it.

With NVSHMEM XLA ends a process that has more than one device. It brings the processes together through the store of
jax.distributed, so NVSHMEM's own bootstrap variables are not needed (openxla/xla, nvshmem_collectives.cc).
"""

from __future__ import annotations

from collections.abc import Mapping

from lcplan.evidence.plan import Plan
from planner.measure.targets.backends import devices_per_process, environment, flags_variable, xla_flags
from planner.trainers import Job, Translation
from planner.trainers.common.export_files import Launch
from planner.trainers.common.launchers import slurm_placement

HEAP_CHUNKS = 6
"""Chunks of keys and values in the heap: sent and received, in bf16 (1 each) and as gradients in fp32 (2 each)."""
LIBRARY = "libnvshmem_host.so"


def jax_environment(translation: Translation, plan: Plan) -> dict[str, str]:
    """Variables for the translated job under the trainer's jax.

    The plan's own flags are kept, except flags of a backend that the trainer's jax lacks. On TPU flags go to
    ``LIBTPU_INIT_ARGS``, elsewhere to ``XLA_FLAGS``.
    """
    job, jax = translation.job, translation.jax
    planned_jax = plan.toolchain.get("jax", "0")
    replaced = set(xla_flags(plan.strategy, plan.request.hardware, jax=planned_jax))
    kept = tuple(flag for flag in plan.xla_flags if flag not in replaced)
    variables = dict(environment(job.strategy, job.hardware, jax=jax))
    pool = plan.environment.get("XLA_PYTHON_CLIENT_MEM_FRACTION")
    if pool is not None:
        variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = pool
    flags = " ".join([*kept, *xla_flags(job.strategy, job.hardware, jax=jax)])
    variables.pop(flags_variable(job.hardware), None)
    if flags:
        variables[flags_variable(job.hardware)] = flags
    return variables


def one_process_per_device(job: Job) -> bool:
    """Whether the job needs one process for each device."""
    gpu = job.hardware.kind == "gpu" and job.strategy.devices > 1
    return gpu and devices_per_process(job.strategy, job.hardware) == 1 and job.hardware.node_size > 1


def heap_gib(job: Job) -> int:
    """Size of the symmetric heap in whole GiB: the buffers of a ring over context, and at least NVSHMEM's default of 1."""
    heads = max(1, job.model.kv_heads // job.strategy.mesh.tensor)
    chunk = 2 * 2 * job.local_tokens * heads * job.model.head_dim
    return max(1, -(-HEAP_CHUNKS * chunk // 2**30))


def launch_per_device(job: Job, command: tuple[str, ...], environment: Mapping[str, str]) -> Launch:
    """The launch with one process per device, under Slurm or another launcher that jax finds its ranks from."""
    nodes, per_node = job.hosts, job.devices_per_host
    segment = tuple(option for option in slurm_placement(job) if option.startswith("--segment"))
    shape = (f"--nodes={nodes}", *segment, f"--ntasks-per-node={per_node}", f"--gpus-per-node={per_node}")
    notes = (
        f"NVSHMEM needs one process per device: {nodes * per_node} processes, {per_node} on each of {nodes} nodes.",
        "jax takes rank and local device of each process from Slurm (SLURM_PROCID, SLURM_LOCALID) or Open MPI.",
        f'Without Slurm: LAUNCHER="mpirun -np {nodes * per_node} --npernode {per_node}" ./launch.sh',
        f"It loads {LIBRARY} (package nvidia-nvshmem-cu12 or nvidia-nvshmem-cu13); put its folder on LD_LIBRARY_PATH.",
        "NVSHMEM_SYMMETRIC_SIZE is the heap of each device, outside XLA's pool; NVSHMEM_DEBUG=INFO prints its start.",
    )
    heap = {"NVSHMEM_SYMMETRIC_SIZE": f"{heap_gib(job)}G"}
    return Launch(command, {**environment, **heap}, per="job", notes=notes, slurm=shape)
