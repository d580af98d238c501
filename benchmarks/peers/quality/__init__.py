"""How good other kinds of models are on the same rows."""
