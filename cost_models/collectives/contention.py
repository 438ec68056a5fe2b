"""Contention of collectives with concurrent kernels: NCCL's permutes run on the multiprocessors that compute."""

from __future__ import annotations

import numpy as np

from cost_models.attention.work import RingSteps
from cost_models.inputs.layout import Bools, Floats, Layout
from cost_models.inputs.table import BACKEND_CODES

NCCL_PERMUTE_BLOCKS = {"ampere": 16, "later": 32}
"""Thread blocks of one NCCL send and receive between NVLink peers, each on its own multiprocessor: two channels per link
(github NVIDIA/nccl, src/graph/paths.cc, ncclTopoGetNchannels), 12 links on Ampere and 18 on Hopper and Blackwell, rounded down
to a power of two."""


NCCL_COLLECTIVE_BLOCKS = 24
"""Thread blocks of one NCCL collective inside a node: the channels that NCCL opens on 8 GPUs of NVSwitch (github NVIDIA/nccl
issue logs of DGX A100 and H100: "24 coll channels")."""


def by_nccl(layout: Layout) -> Bools:
    """Return the rows whose ring uses NCCL or RCCL, whose kernels run concurrently with attention's.

    Parameters
    ----------
    layout : Layout
        Candidates.

    Returns
    -------
    ndarray of bool, shape [n]
        True where a permute takes multiprocessors; ``nvshmem`` and ``symmetric`` use copy engines [no unit].

    Notes
    -----
    Source: NVIDIA blog of 2026-02-03, Accelerating Long-Context Model Training in JAX and XLA; RCCL is a port of NCCL.
    """
    codes = [BACKEND_CODES.index("nccl"), BACKEND_CODES.index("rccl")]
    return layout.rings & np.isin(layout.table.backend, codes)


def multiprocessor_share(layout: Layout) -> float:
    """Return the share of a device's multiprocessors that one NCCL permute occupies while it runs.

    Parameters
    ----------
    layout : Layout
        Candidates; the device gives its number of multiprocessors.

    Returns
    -------
    float
        Share [no unit]; 0 where the device's number of multiprocessors is unknown.

    Notes
    -----
    Source: ``NCCL_PERMUTE_BLOCKS``.
    """
    gpu = layout.setting.hardware.device.gpu
    if gpu is None:
        return 0.0
    ampere = gpu.compute_capability is not None and gpu.compute_capability < (9, 0)
    blocks = NCCL_PERMUTE_BLOCKS["ampere" if ampere else "later"]
    return min(1.0, blocks / gpu.core_count)


def hidden_contention_seconds(layout: Layout, hidden_s: Floats) -> Floats:
    """Return the time that NCCL's collectives take from the kernels that hide them.

    ``share t``: the share of multiprocessors that the collective's blocks occupy, for as long as it is hidden.

    Parameters
    ----------
    layout : Layout
        Candidates; the device gives its number of multiprocessors.
    hidden_s : ndarray, shape [n]
        t, time of collectives that overlap other work [s].

    Returns
    -------
    ndarray, shape [n]
        Lost time [s].

    Notes
    -----
    Ignores that a backend moves small all-reduces by copy engine. Source: ``NCCL_COLLECTIVE_BLOCKS``.
    """
    gpu = layout.setting.hardware.device.gpu
    share = min(1.0, NCCL_COLLECTIVE_BLOCKS / gpu.core_count) if gpu is not None else 0.0
    return share * np.maximum(hidden_s, 0.0)


TRANSIT = {"all-gather": 2.0, "reduce-scatter": 3.0}
"""Accesses to a device's memory per byte of a ring collective's larger side. A received byte is written, then read to be
forwarded; a received partial sum is written, read, and added to the device's own part, which is read too."""


def transit_bytes(op: str, operand_bytes: Floats) -> Floats:
    """Return the memory traffic that a torus collective causes on each device that it passes.

    ``k B``.

    Parameters
    ----------
    op : str
        ``all-gather`` or ``reduce-scatter``; other operations count 0 here.
    operand_bytes : ndarray, shape [n]
        B, the larger side of the operand [bytes].

    Returns
    -------
    ndarray, shape [n]
        Traffic [bytes per call].

    Notes
    -----
    Products of training shapes nearly saturate a TPU's memory (an 8192-wide bf16 product in tiles of 1024 on a v6e needs
    1.4e12 of 1.6e12 bytes/s), so the traffic of concurrent collectives adds time. Ignores transfers that stay in vector
    memory. Source: counted for rings; How To Scale Your Model (jax-ml.github.io/scaling-book/sharding) for the rings.

    Examples
    --------
    >>> float(transit_bytes("all-gather", np.array(3.0)))
    6.0
    """
    return TRANSIT.get(op, 0.0) * operand_bytes


def hop_contention_seconds(layout: Layout, *, hop_s: Floats, kernel_s: Floats) -> Floats:
    """Return the time that one NCCL hop takes from the concurrent kernel: its share of multiprocessors while both run.

    ``share min(hop, kernel)``.

    Parameters
    ----------
    layout : Layout
        Candidates.
    hop_s : ndarray, shape [n]
        Transfer of a chunk [s].
    kernel_s : ndarray, shape [n]
        Attention kernel on the current chunk [s].

    Returns
    -------
    ndarray, shape [n]
        Lost time [s per hop].

    Notes
    -----
    Ignores the memory bandwidth of the copies. Source: NVIDIA blog of 2026-02-03: NCCL's kernels take multiprocessors from
    compute.
    """
    lost: Floats = np.minimum(hop_s, kernel_s) * (multiprocessor_share(layout) * by_nccl(layout))
    return lost


def tensor_contention_seconds(layout: Layout, steps: RingSteps) -> Floats:
    """Return the time that NCCL's permutes take from a ring's kernels where the tensor axis also has communicators.

    ``k`` times the kernels of the steps that overlap a hop. With one communicator the permute's blocks end with its transfer;
    next to another communicator's kernels they were measured to stay for the whole of attention. A step that XLA did not
    schedule (``Program.runtime`` is ``torch``) counts 0: k was measured only in steps of XLA.

    Parameters
    ----------
    layout : Layout
        Candidates; its constants hold k, ``nccl_ring_contention``.
    steps : RingSteps
        Attention kernels of one pass over one layer [s].

    Returns
    -------
    ndarray, shape [n]
        Lost time [s per pass over a layer].

    Notes
    -----
    Source: the 256K rows of the same blog, the only published rows with both axes, in which NCCL takes 30-36 % longer; the
    reason is not published. k is fitted on them (data/constants.yaml). Valid for the step of JAX and XLA that they ran.
    """
    if layout.setting.program.runtime != "xla":
        return np.zeros(len(layout.table))
    concurrent = by_nccl(layout) & (layout.table.tensor > 1) & (layout.table.backend == BACKEND_CODES.index("nccl"))
    lost: Floats = concurrent * (layout.setting.constants.nccl_ring_contention * steps.total_s)
    return lost
