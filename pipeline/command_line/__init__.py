"""The words of the command line: which commands there are, their settings, and what was typed.

Nothing here imports a command: `estimator-pipeline --help` answers at once.
"""
