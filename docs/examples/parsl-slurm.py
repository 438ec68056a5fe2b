"""Parsl submits its own blocks of workers to Slurm: lcplan search .. --engine parsl:parsl-slurm.py"""

import parsl
from parsl.executors import HighThroughputExecutor
from parsl.providers import SlurmProvider

config = parsl.Config(
    executors=[
        HighThroughputExecutor(
            label="compile",
            max_workers_per_node=4,
            provider=SlurmProvider(
                partition="cpu",
                nodes_per_block=1,
                init_blocks=2,
                max_blocks=8,
                walltime="02:00:00",
                worker_init="source ~/lcplan/bin/activate",
            ),
        )
    ],
    retries=2,
)
