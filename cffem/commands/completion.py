# SPDX-License-Identifier: MIT
"""`cffem completion bash|zsh|fish`: what a shell needs to complete commands, options, demos and
files.

The words come from the parser of the command line, so that nothing is listed twice.
"""

from __future__ import annotations

import argparse

BASH = """# eval "$(cffem completion bash)"
_cffem() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}}
  if [ "$COMP_CWORD" = 1 ]; then COMPREPLY=($(compgen -W "{commands}" -- "$word")); return; fi
  case $command in
{cases}
  esac
}}
complete -o default -F _cffem cffem
"""
ZSH = """# eval "$(cffem completion zsh)"
autoload -U +X bashcompinit && bashcompinit
"""


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def options(command: argparse.ArgumentParser) -> list[str]:
    """The long options of a command."""
    return [
        name
        for action in command._actions
        if action.help != argparse.SUPPRESS
        for name in action.option_strings
        if name.startswith("--")
    ]


def script(shell: str, parser: argparse.ArgumentParser, words: dict[str, list[str]]) -> str:
    """The completion of one shell.

    Args:
        shell: bash, zsh or fish.
        parser: the parser of the command line.
        words: for each command the words that may follow it, demos say.
    """
    commands = subcommands(parser)
    if shell == "fish":
        lines = ["# cffem completion fish | source"]
        lines += [f"complete -c cffem -n __fish_use_subcommand -a {name}" for name in commands]
        for name, command in commands.items():
            seen = f"complete -c cffem -n '__fish_seen_subcommand_from {name}'"
            lines += [f"{seen} -l {option[2:]}" for option in options(command)]
            lines += [f"{seen} -a '{' '.join(words[name])}'"] if name in words else []
        return "\n".join(lines) + "\n"
    cases = "\n".join(
        f'    {name}) COMPREPLY=($(compgen -W "{follow}" -- "$word")) ;;'
        for name, command in commands.items()
        for follow in [" ".join([*options(command), *words.get(name, [])])]
    )
    text = BASH.format(commands=" ".join(commands), cases=cases)
    return text if shell == "bash" else ZSH + text
