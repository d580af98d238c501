"""Tables that are made by a formula, of any size, with nothing to download."""
