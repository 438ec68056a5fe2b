"""Part of the attention square that kernels compute under documents, windows and tiles."""
