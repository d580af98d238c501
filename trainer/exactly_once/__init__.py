"""Which records have trained the parameters, and which come next."""
