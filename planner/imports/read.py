"""A trainer's file, read for the devices of a job."""

from __future__ import annotations

from planner.trainers.common.imported import Imported
from planner.trainers.registry import formats, reader


def read_file(name: str, file: str, *, devices: int | None, hardware: str | None) -> Imported:
    """The file of trainer ``name``.

    A job on TPU slices takes all of them; a trainer that counts the slices itself fills its axes over them.

    Raises
    ------
    BadInputError
        The file is not in the trainer's format, or it has something that lcplan does not price.
    """
    form = formats()[name]
    if form.takes_all and devices is None and hardware is not None:
        from lcplan import catalog

        devices = catalog.hardware(hardware).devices
    if not form.counts_slices or hardware is None:
        return reader(name)(file, devices)
    from lcplan import catalog

    spec = catalog.hardware(hardware)
    if spec.kind != "tpu":
        return reader(name)(file, devices)
    devices = devices or spec.devices
    return reader(name)(file, devices, slices=max(1, devices // spec.domain_size))
