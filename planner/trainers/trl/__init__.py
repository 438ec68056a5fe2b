"""TRL: Transformers under Accelerate, from a YAML of its command line or the script of a run."""
