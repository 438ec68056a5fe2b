"""The catalogue: models and hardware by name, by file, by accelerator type."""

from __future__ import annotations

from lcplan.catalog.find_hardware import hardware, read_as
from lcplan.catalog.find_model import model
from lcplan.catalog.named_hardware import hardware_names
from lcplan.catalog.named_model import model_names

__all__ = ["hardware", "hardware_names", "model", "model_names", "read_as"]
