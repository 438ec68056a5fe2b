"""The catalogue: models and hardware by name, by file, by accelerator type."""

from __future__ import annotations

from lcplan.catalog.find_hardware import hardware, hardware_names
from lcplan.catalog.find_model import model, model_names

__all__ = ["hardware", "hardware_names", "model", "model_names"]
