"""Prints a script by which a shell completes commands, settings and some of their values.

    source <(estimator-pipeline completion bash)     in ~/.bashrc
    source <(estimator-pipeline completion zsh)      in ~/.zshrc, after compinit

The script holds all words, so that nothing is started while you type.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli
from pipeline.command_line import shell_script
from pipeline.config import config_file

_SHELL = flags.DEFINE_enum("shell", None, ["bash", "zsh"], "Which shell.", required=True)


def main() -> None:
    """Prints the script."""
    configs = config_file.list_shipped()
    print(shell_script.script(_SHELL.value, configs))


if __name__ == "__main__":
    cli.run(main)
