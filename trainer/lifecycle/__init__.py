"""How training begins and how it ends."""
