"""Achieved rates of a device, from published measurements where these exist, else a documented share of its peak."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import Any

from cost_models.compute.exponential import exponential_share
from cost_models.inputs.setting import Setting
from cost_models.rates.calibrated import calibrated
from cost_models.rates.rate import CollectiveRate, Rate, Rates
from cost_models.rates.scaling import bandwidth_ratio, peak_ratio, power_cap_ratio, scaled
from lcplan.spec.hardware import Figure, HardwareSpec

__all__ = ["CollectiveRate", "Rate", "Rates", "inherited_rates", "rates_for", "rates_name", "rates_of"]

SUSTAINED_OF_BEST = 691.0 / 794.5
"""Sustained over best-shape GEMM rate. H100: 691 TFLOP/s over 26 Llama shapes (own measurement, jax 0.11.2) against
794.5 of the best shape (stas00/ml-engineering, MAMF). Used where only a best shape was published."""

GEMM_OF_PEAK = {"gpu": 691.0 / 989.0, "tpu": 827.5 / 918.0, "cpu": 1.0}
"""GEMM rate over datasheet peak where no rate was measured. GPU: the same H100 rows over 989 TFLOP/s. TPU: v6e's 8192^3
product over 918 TFLOP/s (data/device_rates.json); a TPU's clock does not fall under load."""

IN_STEP = {"forward": 0.90, "backward": 1.0}
"""cuDNN attention inside an XLA program over cudnn-frontend's own benchmark at steady clocks, 16k tokens: own measurement on
an H100 (data/device_rates.json) against the H200, which is the same compute die."""

ATTENTION_OF_PEAK = {"forward": 0.90 * 1666.0 / 2500.0, "backward": 1277.0 / 2500.0}
"""Attention rate over peak where no kernel was measured: the cuDNN rows of GB200 (data/device_rates.json), in a step."""

SERIAL_PRODUCTS = {"forward": 312.0 / 215.0 - 0.25, "backward": 312.0 / 194.0 - 0.25 * 2.0 / 5.0}
"""Time of attention's products in a kernel over their time at the peak rate, on GPUs before Hopper, whose kernels compute
products and exponentials one after the other: FlashAttention-2 on an A800 (data/device_rates.json), less the exponentials, a
quarter of the products' time forward (``exponential_share``) and as many for five products in place of two backward."""

HALF_TOKENS = {"forward": 500.0, "backward": 570.0}
"""Mean key length at which a kernel reaches half its rate, where this was not measured: the values of GB200."""

HBM_OF_PEAK = 2628.9 / 3352.3
"""Achieved over nominal memory bandwidth: copy of 4 GiB on an H100 (own measurement, jax 0.11.2)."""

LINK_OF_PEAK = 300.0 / 450.0
"""Achieved over nominal one-way bandwidth of a domain link: H100 all-gather of 64 MiB and more, 8 devices
(NVIDIA aiconfigurator nccl-tests sweeps)."""

PERMUTE_OF_LINK = 672.0 / 900.0
"""Achieved over nominal one-way bandwidth for a collective-permute: GB200, 64 and 72 devices, at least 16 MiB per device
(XLA's default_collective_perf_table)."""

PERMUTE_LATENCY_S = 12e-6
"""Time of a collective-permute of 0.25-2 MiB on GB200, 64 devices (XLA's default_collective_perf_table): flat at 6-13 us."""

KERNEL_FLOOR_S = 3e-6
"""Least time of one kernel: smallest RMSNorm kernels on GB200 and H200 (cudnn-frontend, benchmark/norms/results)."""


CAP = "for the power cap"


@lru_cache(maxsize=1)
def _published() -> dict[str, dict[str, Any]]:
    text = resources.files("cost_models").joinpath("data/device_rates.json").read_text(encoding="utf-8")
    data: dict[str, dict[str, Any]] = json.loads(text)
    return data


def rates_name(hardware: HardwareSpec) -> str:
    """Return the name of the device whose published rates a machine has: the longest that is a word of its device's name.

    Parameters
    ----------
    hardware : HardwareSpec
        Machine.

    Returns
    -------
    str
        Key of data/device_rates.json, or the device's own name if no key matches [no unit].

    Notes
    -----
    Source: data/device_rates.json.
    """
    name = f"{hardware.device.name} {hardware.device.gpu.description if hardware.device.gpu else ''}"
    known = [key for key in _published() if re.search(rf"(?<![A-Za-z0-9]){re.escape(key)}(?![0-9])", name, re.IGNORECASE)]
    return max(known, key=len) if known else hardware.device.name


def _entry(hardware: HardwareSpec) -> dict[str, Any]:
    """Return the published rates of a machine's device; empty for a device without rates."""
    return _published().get(rates_name(hardware), {})


def rates_of(hardware: HardwareSpec) -> Rates:
    """Return a device's rates: those of its spec, else of ``data/device_rates.json``, else a share of the datasheet.

    Parameters
    ----------
    hardware : HardwareSpec
        Machine.

    Returns
    -------
    Rates
        Rates [FLOP/s, bytes/s, s], each with its basis.

    Notes
    -----
    Source: data/device_rates.json and this module's constants, which give their sources.
    """
    entry = _entry(hardware)
    attention = entry.get("attention", {})
    capped = power_cap_ratio(hardware, float(entry.get("power_w", 0.0)))
    published = Rates(
        gemm=scaled(_gemm(hardware, entry), capped, why=CAP),
        attention_forward=scaled(_attention(hardware, entry, which="forward"), capped, why=CAP),
        attention_backward=scaled(_attention(hardware, entry, which="backward"), capped, why=CAP),
        forward_half_tokens=attention.get("forward_half_tokens", HALF_TOKENS["forward"]),
        backward_half_tokens=attention.get("backward_half_tokens", HALF_TOKENS["backward"]),
        hbm=_hbm(hardware, entry),
        matrix_unit=float(entry.get("matrix_unit", 0.0)),
        exponential_share=exponential_share(hardware),
        collectives={op: _collective(hardware, entry, op=op) for op in _OPS},
        switch_all_reduce=_in_switch(hardware, entry),
        wide_forward=attention.get("wide_forward"),
        wide_backward=attention.get("wide_backward"),
    )
    return calibrated(published, hardware.device.rates)


def inherited_rates(hardware: HardwareSpec) -> str:
    """Return how rates of another device are scaled for this one, in words; empty for a device with its own rates.

    Parameters
    ----------
    hardware : HardwareSpec
        Machine whose device has the name of a measured one.

    Returns
    -------
    str
        The peak and the bandwidth that differ, each with its ratio [no unit].

    Notes
    -----
    Source: ``cost_models.rates.scaling``.
    """
    entry, device, words = _entry(hardware), hardware.device, []
    if (peak := peak_ratio(hardware, entry)) != 1.0:
        own, measured = device.peak_flop_per_s.value * 1e-12, entry["peak_flop_per_s"] * 1e-12
        words.append(f"computation x {peak:.2f}, for a peak of {own:.4g} TFLOP/s in place of {measured:.4g}")
    if (memory := bandwidth_ratio(hardware, entry)) != 1.0:
        own, measured = device.hbm_bytes_per_s.value * 1e-9, entry["hbm"]["nominal_bytes_per_s"] * 1e-9
        words.append(f"memory x {memory:.2f}, for {own:.4g} GB/s in place of {measured:.4g}")
    return "; ".join(words)


TRITON_OF_FLASH2 = 1.0 / 1.8
"""Rate of FlashAttention in Triton over FlashAttention-2, which Dao (arXiv:2307.08691, section 4.1) measured 1.3-2.5 times
faster on an A100: the geometric mean."""

OTHER_KERNELS = {
    "flash2": "attention-flash2",
    "triton": "attention-flash2",
    "cudnn-2025": "attention-cudnn-2025",
    "tokamax": "attention-tokamax",
}
"""Entries of data/device_rates.json for the kernels that programs name."""


def rates_for(setting: Setting) -> Rates:
    """Return ``rates_of`` the setting's hardware, with the attention kernel of the setting's program.

    Parameters
    ----------
    setting : Setting
        Machine and program.

    Returns
    -------
    Rates
        Rates [FLOP/s, bytes/s, s], each with its basis.

    Notes
    -----
    Source: data/device_rates.json, entries such as ``attention-flash2``; ``TRITON_OF_FLASH2``. A device without an entry for
    the kernel is priced with that of its own step.
    """
    rates, kind = rates_of(setting.hardware), setting.program.attention
    if kind not in OTHER_KERNELS:
        return rates
    entry = _entry(setting.hardware)
    older = entry.get(OTHER_KERNELS[kind], entry.get("attention", {}))
    share = TRITON_OF_FLASH2 if kind == "triton" else 1.0
    own = {**entry, "attention": older}
    passes = {which: _attention(setting.hardware, own, which=which) for which in ("forward", "backward")}
    share *= power_cap_ratio(setting.hardware, float(entry.get("power_w", 0.0)))
    scaled = {which: replace(rate, value=rate.value * share) for which, rate in passes.items()}
    return replace(
        rates,
        attention_forward=scaled["forward"],
        attention_backward=scaled["backward"],
        forward_half_tokens=older.get("forward_half_tokens", HALF_TOKENS["forward"]),
        backward_half_tokens=older.get("backward_half_tokens", HALF_TOKENS["backward"]),
        wide_forward=older.get("wide_forward"),
        wide_backward=older.get("wide_backward"),
    )


_OPS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute")


def _gemm(hardware: HardwareSpec, entry: dict[str, Any]) -> Rate:
    found = entry.get("gemm", {})
    if "sustained_flop_per_s" in found:
        return _for_peak(Rate(found["sustained_flop_per_s"], True, found["source"]), hardware, entry=entry)
    if "best_flop_per_s" in found:
        source = f"{found['source']} x {SUSTAINED_OF_BEST:.2f}"
        return _for_peak(Rate(found["best_flop_per_s"] * SUSTAINED_OF_BEST, True, source), hardware, entry=entry)
    return _share(hardware.device.peak_flop_per_s, GEMM_OF_PEAK[hardware.kind], what="peak")


def _attention(hardware: HardwareSpec, entry: dict[str, Any], *, which: str) -> Rate:
    key, found = f"{which}_flop_per_s", entry.get("attention", {})
    if key in found:
        share = IN_STEP[which] if found["benchmark"] else 1.0
        source = found["source"] + (f"; x {share} inside a step" if share != 1.0 else "")
        return _for_peak(Rate(found[key] * share, True, source), hardware, entry=entry)
    return _share(hardware.device.peak_flop_per_s, _attention_share(hardware, which=which), what="peak")


def _attention_share(hardware: HardwareSpec, *, which: str) -> float:
    """Return the share of the peak at which attention runs where no kernel was measured."""
    gpu = hardware.device.gpu
    if gpu is None or gpu.compute_capability is None or gpu.compute_capability >= (9, 0):
        return ATTENTION_OF_PEAK[which]
    exponentials = exponential_share(hardware) * (1.0 if which == "forward" else 2.0 / 5.0)
    return 1.0 / (SERIAL_PRODUCTS[which] + exponentials)


def _for_peak(rate: Rate, hardware: HardwareSpec, *, entry: dict[str, Any]) -> Rate:
    """Return a measured rate of computation, scaled to this device's peak."""
    share = peak_ratio(hardware, entry)
    if share == 1.0:
        return rate
    peaks = f"{hardware.device.peak_flop_per_s.value * 1e-12:.4g} TFLOP/s in place of {entry['peak_flop_per_s'] * 1e-12:.4g}"
    return replace(scaled(rate, share, why=f"for a peak of {peaks}"), measured=False)


def _hbm(hardware: HardwareSpec, entry: dict[str, Any]) -> Rate:
    found = entry.get("hbm", {})
    if "copy_bytes_per_s" in found:
        share = bandwidth_ratio(hardware, entry)
        rate = Rate(found["copy_bytes_per_s"], share == 1.0, found["source"])
        return scaled(rate, share, why="for the memory's nominal bandwidth")
    return _share(hardware.device.hbm_bytes_per_s, HBM_OF_PEAK, what="bandwidth")


def _share(figure: Figure, share: float, *, what: str) -> Rate:
    """Return a spec's figure unchanged if it was measured, else ``share`` of the datasheet's figure."""
    if figure.kind == "measured":
        return Rate(figure.value, True, figure.source)
    return Rate(figure.value * share, False, f"{share:.2f} of the datasheet's {what}")


def _in_switch(hardware: HardwareSpec, entry: dict[str, Any]) -> CollectiveRate | None:
    """Return the rate of all-reduces that NVLink's switches sum; None without one, or on links of another speed."""
    row, measured = entry.get("switch_all_reduce"), entry.get("collectives", {}).get("link_oneway_bytes_per_s")
    if row is None or hardware.domain_size < 2 or hardware.domain_link.oneway_bytes_per_s.value != measured:
        return None
    return CollectiveRate(row["latency_s"], row["member_latency_s"], row["oneway_bytes_per_s"], True, row["source"])


def _collective(hardware: HardwareSpec, entry: dict[str, Any], *, op: str) -> CollectiveRate:
    link = hardware.domain_link
    rows = entry.get("collectives", {})
    if op in rows:
        row, scale = rows[op], link.oneway_bytes_per_s.value / rows["link_oneway_bytes_per_s"]
        source = rows["source"] if scale == 1 else f"{scale:.3g} times, as its link is to the one measured: {rows['source']}"
        bandwidth = row["oneway_bytes_per_s"] * scale
        return CollectiveRate(row["latency_s"], row["member_latency_s"], bandwidth, scale == 1, source)
    if op == "collective-permute" and hardware.kind == "gpu":
        bandwidth = link.oneway_bytes_per_s.value * PERMUTE_OF_LINK
        return CollectiveRate(
            PERMUTE_LATENCY_S, 0.0, bandwidth, False, "GB200's permutes, scaled by the link (XLA's perf table)"
        )
    rate = _share(link.oneway_bytes_per_s, LINK_OF_PEAK if hardware.kind == "gpu" else 1.0, what="link bandwidth")
    return CollectiveRate(link.latency_s.value, link.latency_s.value, rate.value, rate.measured, rate.source)
