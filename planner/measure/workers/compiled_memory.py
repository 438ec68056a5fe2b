"""Memory of one device that an executable needs, from ``memory_analysis()``."""

from __future__ import annotations

from typing import Any


def memory_of(compiled: Any, exact_temp: int | None) -> dict[str, int]:
    """``memory_analysis()`` of one device [bytes], with ``exact_temp`` in place of its temporaries where given."""
    stats = compiled.memory_analysis()
    argument, output = int(stats.argument_size_in_bytes), int(stats.output_size_in_bytes)
    said = int(stats.temp_size_in_bytes)
    temp = said if exact_temp is None else exact_temp
    alias = int(stats.alias_size_in_bytes)
    return {
        "argument_bytes": argument,
        "output_bytes": output,
        "temp_bytes": temp,
        "alias_bytes": alias,
        "memory_analysis_temp_bytes": said,
        "host_temp_bytes": int(stats.host_temp_size_in_bytes),
        "total_bytes": argument + output + temp - alias,
    }
