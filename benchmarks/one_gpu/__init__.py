"""Parts of ``benchmarks/on_one_gpu.py``: what one borrowed accelerator is asked, a module for each question."""
