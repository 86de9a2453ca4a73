"""`flambeau completion`: what the Tab key offers in bash, zsh and fish.

The printed script asks the program itself (`flambeau completion words -- ...`) each time, so that commands of plugins
and names in the registries are always those of today, and there is nothing to regenerate.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Sequence

from flambeau.core.cli.parser import Parser
from flambeau.core.terminal import printable

_BASH = """\
_flambeau() {
    local IFS=$'\\n' current="${COMP_WORDS[COMP_CWORD]}"
    local words=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
    # bash takes a colon for the end of a word, so that names of weights arrive in pieces.
    if [[ "$COMP_WORDBREAKS" == *:* ]]; then
        local joined="${COMP_LINE:0:COMP_POINT}"
        current="${joined##* }"
    fi
    COMPREPLY=($(flambeau completion words -- "${words[@]}" "$current" 2>/dev/null))
    if [[ "$current" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*:}"}"}")
    fi
}
complete -o default -F _flambeau flambeau
"""

_ZSH = """\
#compdef flambeau
_flambeau() {
    local -a found
    found=("${(@f)$(flambeau completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then
        compadd -- "${found[@]}"
    else
        _files
    fi
}
compdef _flambeau flambeau
"""

_FISH = """\
function __flambeau_complete
    set -l words (commandline -opc) (commandline -ct)
    flambeau completion words -- $words[2..-1] 2>/dev/null
end
complete -c flambeau -a '(__flambeau_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
# Options whose value is a name.
_VALUES = {"--model": "models", "--plugin": "plugins", "--weights": "weights"}
_HOW = {
    "bash": "eval \"$(flambeau completion bash)\"     # in ~/.bashrc",
    "zsh": "eval \"$(flambeau completion zsh)\"      # in ~/.zshrc, after compinit",
    "fish": "flambeau completion fish | source       # in ~/.config/fish/config.fish",
}  # fmt: skip


def configure(parser: Parser) -> None:
    """Add an action for each shell."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Print the completion script for a shell. To use it:\n\n  " + "\n  ".join(_HOW.values())
    actions = parser.actions(metavar="SHELL")
    for shell in SCRIPTS:
        actions.add_parser(shell, help=f"print the script for {shell}").set_defaults(run=_printer(shell))
    words = actions.add_parser("words")  # without help: the scripts' way in, and nobody else's
    words.add_argument("words", nargs="*")
    words.set_defaults(run=run_words)


def run_words(arguments: argparse.Namespace) -> int:
    """Print what may stand in the place of the last word, one a line."""
    warnings.simplefilter("ignore")
    for word in complete(arguments.words or [""]):
        print(printable(word))
    return 0


def complete(words: Sequence[str]) -> list[str]:
    """What may stand in the place of the last word; empty where only the user, or the file system, knows.

    Args:
        words: the words after the program's name, the last one perhaps empty.
    """
    from flambeau.core.cli.commands import program

    *before, current = words
    parser = program(["--help"])
    for word in before:
        parser.complete_setup()
        parser = parser.children.get(word, parser)
    parser.complete_setup()
    if before and before[-1] in _VALUES:
        candidates: Iterable[str] = _names(_VALUES[before[-1]])
    elif current.startswith("-"):
        candidates = _options(parser)
    else:
        candidates = [*parser.children, *_names(parser.completes)]
    return sorted({word for word in candidates if word.startswith(current)})


def _options(parser: Parser) -> Iterable[str]:
    # argparse keeps no public list of its options.
    return [option for action in parser._actions for option in action.option_strings]


def _names(kind: str | None) -> list[str]:
    """Everything that a word of this kind can be."""
    if kind is None:
        return []
    if kind == "plugins":
        from flambeau.core.cli.plugin_rows import choose

        return [plugin.name for plugin in choose()]
    from flambeau.core import registry

    found = {"models": registry.MODELS, "weights": registry.WEIGHTS, "datasets": registry.DATASETS}[kind]
    return found.names()


def _printer(shell: str) -> object:
    def run(arguments: argparse.Namespace) -> int:
        print(SCRIPTS[shell], end="")
        return 0

    return run
