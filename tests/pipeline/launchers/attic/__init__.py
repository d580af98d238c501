"""A place that does not exist: it shows that a place is a folder and a row of the table."""
