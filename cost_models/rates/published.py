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
from lcplan.spec.hardware import Figure, HardwareSpec

__all__ = ["CollectiveRate", "Rate", "Rates", "power_cap_ratio", "rates_for", "rates_name", "rates_of"]

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

HALF_TOKENS = {"forward": 500.0, "backward": 570.0}
"""Mean key length at which a kernel reaches half its rate, where this was not measured: the values of GB200."""

HBM_OF_PEAK = 2628.9 / 3352.3
"""Achieved over nominal memory bandwidth: copy of 4 GiB on an H100 (own measurement, jax 0.11.2)."""

LINK_OF_PEAK = 300.0 / 450.0
"""Achieved over nominal one-way bandwidth of a domain link: H100 all-gather of 64 MiB and more, 8 devices
(NVIDIA aiconfigurator nccl-tests sweeps)."""

POWER_EXPONENT = 2.0 / 3.0
"""Exponent of clock over power at a device's power limit. Dynamic power is proportional to the clock times the square of the
voltage: 1 where the voltage is fixed, 1/3 where it follows the clock. This value is midway."""

PERMUTE_OF_LINK = 672.0 / 900.0
"""Achieved over nominal one-way bandwidth for a collective-permute: GB200, 64 and 72 devices, at least 16 MiB per device
(XLA's default_collective_perf_table)."""

PERMUTE_LATENCY_S = 12e-6
"""Time of a collective-permute of 0.25-2 MiB on GB200, 64 devices (XLA's default_collective_perf_table): flat at 6-13 us."""

KERNEL_FLOOR_S = 3e-6
"""Least time of one kernel: smallest RMSNorm kernels on GB200 and H200 (cudnn-frontend, benchmark/norms/results)."""


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
        gemm=_scaled(_gemm(hardware, entry.get("gemm", {})), capped),
        attention_forward=_scaled(_attention(hardware, attention, which="forward"), capped),
        attention_backward=_scaled(_attention(hardware, attention, which="backward"), capped),
        forward_half_tokens=attention.get("forward_half_tokens", HALF_TOKENS["forward"]),
        backward_half_tokens=attention.get("backward_half_tokens", HALF_TOKENS["backward"]),
        hbm=_hbm(hardware, entry.get("hbm", {})),
        matrix_unit=float(entry.get("matrix_unit", 0.0)),
        exponential_share=exponential_share(hardware),
        collectives={op: _collective(hardware, entry, op=op) for op in _OPS},
    )
    return calibrated(published, hardware.device.rates)


def power_cap_ratio(hardware: HardwareSpec, measured_at_w: float) -> float:
    """Return the compute rate of a power-capped device as a share of its uncapped rate.

    ``(P / P0)^a`` below P0, else 1.

    Parameters
    ----------
    hardware : HardwareSpec
        Machine; its device's ``power_w`` is P.
    measured_at_w : float
        P0, power at which the rate was measured [W]; 0 where that is unknown.

    Returns
    -------
    float
        Ratio [no unit].

    Notes
    -----
    Source: ``POWER_EXPONENT``. Memory and links keep their rates.
    """
    power = hardware.device.power_w
    if power is None or measured_at_w <= 0 or power.value >= measured_at_w:
        return 1.0
    return float((power.value / measured_at_w) ** POWER_EXPONENT)


def _scaled(rate: Rate, share: float) -> Rate:
    return (
        rate
        if share == 1.0
        else replace(rate, value=rate.value * share, source=f"{rate.source}; x {share:.2f} for the power cap")
    )


TRITON_OF_FLASH2 = 1.0 / 1.8
"""Rate of FlashAttention in Triton over FlashAttention-2, which Dao (arXiv:2307.08691, section 4.1) measured 1.3-2.5 times
faster on an A100: the geometric mean."""

OLDER_KERNELS = {"flash2": "attention-flash2", "triton": "attention-flash2", "cudnn-2025": "attention-cudnn-2025"}
"""Entries of data/device_rates.json for the older kernels that programs name."""


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
    the older kernel is priced with its best kernel.
    """
    rates, kind = rates_of(setting.hardware), setting.program.attention
    if kind not in OLDER_KERNELS:
        return rates
    entry = _entry(setting.hardware)
    older = entry.get(OLDER_KERNELS[kind], entry.get("attention", {}))
    share = TRITON_OF_FLASH2 if kind == "triton" else 1.0
    passes = {which: _attention(setting.hardware, older, which=which) for which in ("forward", "backward")}
    share *= power_cap_ratio(setting.hardware, float(entry.get("power_w", 0.0)))
    scaled = {which: replace(rate, value=rate.value * share) for which, rate in passes.items()}
    return replace(
        rates,
        attention_forward=scaled["forward"],
        attention_backward=scaled["backward"],
        forward_half_tokens=older.get("forward_half_tokens", HALF_TOKENS["forward"]),
        backward_half_tokens=older.get("backward_half_tokens", HALF_TOKENS["backward"]),
    )


_OPS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute")


def _gemm(hardware: HardwareSpec, entry: dict[str, Any]) -> Rate:
    if "sustained_flop_per_s" in entry:
        return Rate(entry["sustained_flop_per_s"], True, entry["source"])
    if "best_flop_per_s" in entry:
        return Rate(entry["best_flop_per_s"] * SUSTAINED_OF_BEST, True, f"{entry['source']} x {SUSTAINED_OF_BEST:.2f}")
    return _share(hardware.device.peak_flop_per_s, GEMM_OF_PEAK[hardware.kind], what="peak")


def _attention(hardware: HardwareSpec, entry: dict[str, Any], *, which: str) -> Rate:
    key = f"{which}_flop_per_s"
    if key in entry:
        share = IN_STEP[which] if entry["benchmark"] else 1.0
        return Rate(entry[key] * share, True, entry["source"] + (f"; x {share} inside a step" if share != 1.0 else ""))
    return _share(hardware.device.peak_flop_per_s, ATTENTION_OF_PEAK[which], what="peak")


def _hbm(hardware: HardwareSpec, entry: dict[str, Any]) -> Rate:
    if "copy_bytes_per_s" in entry:
        nominal = hardware.device.hbm_bytes_per_s.value
        scale = nominal / entry.get("nominal_bytes_per_s", nominal)
        return Rate(entry["copy_bytes_per_s"] * scale, scale == 1, entry["source"])
    return _share(hardware.device.hbm_bytes_per_s, HBM_OF_PEAK, what="bandwidth")


def _share(figure: Figure, share: float, *, what: str) -> Rate:
    """Return a spec's figure unchanged if it was measured, else ``share`` of the datasheet's figure."""
    if figure.kind == "measured":
        return Rate(figure.value, True, figure.source)
    return Rate(figure.value * share, False, f"{share:.2f} of the datasheet's {what}")


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
