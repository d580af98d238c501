"""Statistics of columns, their pages, and drift between records."""
