"""From a raw table to records, in one process."""
