"""Wide & deep in several processes, most with parameter servers."""
