"""The pipelined step: stages of layers over the axis ``pipe``, in lockstep, as one program for all devices."""
