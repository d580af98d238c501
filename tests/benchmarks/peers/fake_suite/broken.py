"""Cannot run here."""

raise RuntimeError("needs another machine")
