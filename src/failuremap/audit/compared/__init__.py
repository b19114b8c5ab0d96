"""Steps held against one process that computed on the same batches: where nothing inside the job can tell."""
