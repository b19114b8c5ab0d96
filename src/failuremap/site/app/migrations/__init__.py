"""The steps of the schema, a file each: `NNNN_what.sql` takes a database of version NNNN - 1 to NNNN."""
