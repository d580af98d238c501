"""The completion script for bash and zsh: a function that holds all words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.command_line import declared, table
from pipeline.command_line.declared import Setting

# bash takes an equals sign for a word of its own, zsh does not. What has no words here is completed
# as a file.
_SCRIPT = """\
_estimator_pipeline() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  local command="${{COMP_WORDS[1]}}" name="" prefix="" words=""
  case "$current" in
    =) name="$before" current="" ;;
    --*=*) name="${{current%%=*}}" prefix="$name=" current="${{current#*=}}" ;;
    *) case "$before" in
         =) name="${{COMP_WORDS[COMP_CWORD-2]}}" ;;
         --*) name="$before" ;;
       esac ;;
  esac
  [ "$COMP_CWORD" -eq 1 ] && command="" name=""
  case "$command $name" in
    " ") words="{commands} --help --version" ;;
{cases}
  esac
  COMPREPLY=($(compgen -P "$prefix" -W "$words" -- "$current"))
}}
complete -o default -F _estimator_pipeline estimator-pipeline"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def script(shell: str, configs: Sequence[str]) -> str:
    """Returns the script for bash or zsh; `configs` are the names that --config takes."""
    cases = [
        f'    {" | ".join(patterns)}) words="{" ".join(words)}" ;;'
        for name, command in table.COMMANDS.items()
        for patterns, words in _list_cases(name, command, configs)
    ]
    text = _SCRIPT.format(commands=" ".join(table.COMMANDS), cases="\n".join(cases))
    return _ZSH + text if shell == "zsh" else text


def _list_cases(
    name: str, command: table.Command, configs: Sequence[str]
) -> Iterator[tuple[list[str], list[str]]]:
    """Yields what is before the cursor, a command and a setting or nothing, and what may follow."""
    settings = declared.read(command.module).settings
    for one in settings.values():
        words = configs if one.name == "config" else one.choices
        if words:
            yield [_format_case(name, one)], list(words)
    typed = [f"--{one.name}" for one in settings.values() if one.name != command.argument]
    argument = settings[command.argument].choices if command.argument else ()
    # A switch takes no value: another setting follows it.
    switches = [_format_case(name, one) for one in settings.values() if one.is_switch]
    yield [f'"{name} "', *switches], [*argument, *typed, "--help"]


def _format_case(name: str, setting: Setting) -> str:
    return f'"{name} --{setting.name}"'
