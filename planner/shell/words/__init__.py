"""Words of a shell script: quotes, variables and arithmetic, expanded as far as the file fixes them."""
