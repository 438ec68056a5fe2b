"""A trainer's file, read for the devices of a job."""

from __future__ import annotations

from planner.trainers import trainer
from planner.trainers.common.imported import Imported
from planner.trainers.registry import reader


def read_file(name: str, file: str, *, devices: int | None, hardware: str | None) -> Imported:
    """The file of trainer ``name``.

    A job on TPU slices takes all of them; a trainer that counts the slices itself fills its axes over them.

    Raises
    ------
    BadInputError
        The file is not in the trainer's format, or it has something that lcplan does not price.
    """
    form = trainer(name).reads
    assert form is not None, f"{name} has no format that is read"
    if not form.counts_slices or hardware is None:
        return reader(name)(file, devices)
    from lcplan import catalog

    spec = catalog.hardware(hardware)
    if spec.kind != "tpu":
        return reader(name)(file, devices)
    devices = devices or spec.devices
    return reader(name)(file, devices, slices=max(1, devices // spec.domain_size))
