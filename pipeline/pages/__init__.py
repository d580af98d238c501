"""HTML pages and their charts: one file each, without scripts or anything to fetch."""
