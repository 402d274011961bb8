"""The completion scripts of the shells. They pass the words up to the cursor, and show what `cli/completer.py` prints.

bash breaks words at `=` and `:`, so its script splits the line itself; quotes are left to the shell.
"""

from __future__ import annotations

from typing import Final

_BASH: Final = r"""
_lmi_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" kind word meaning
    local -a words=()
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    COMPREPLY=()
    while IFS=$'\t' read -r kind word meaning; do
        case $kind in
            plain) COMPREPLY+=("$word") ;;
            file) compopt -o default 2>/dev/null ;;
            dir) compopt -o dirnames 2>/dev/null ;;
        esac
    done < <(COMP_WORDBREAKS="$COMP_WORDBREAKS" _LMI_COMPLETE=bash "$1" "${words[@]:1}" 2>/dev/null)
    case ${COMPREPLY[0]} in
        *[=.]) compopt -o nospace 2>/dev/null ;;
    esac
}
complete -o nosort -F _lmi_completion lmi
"""
_ZSH: Final = r"""
#compdef lmi
_lmi() {
    local kind word meaning
    local -a plain open
    while IFS=$'\t' read -r kind word meaning; do
        case $kind in
            plain)
                if [[ $word == *[=.] ]]; then
                    open+=("$word")
                else
                    plain+=("${word//:/\\:}${meaning:+:$meaning}")
                fi ;;
            file) _files ;;
            dir) _files -/ ;;
        esac
    done < <(_LMI_COMPLETE=zsh "${words[1]}" "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)
    (( ${#plain} )) && _describe -V lmi plain
    (( ${#open} )) && compadd -V lmi -S '' -a open
    return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _lmi "$@"
else
    compdef _lmi lmi
fi
"""
_FISH: Final = r"""
function __lmi_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (env _LMI_COMPLETE=fish $words[1] $words[2..-1] "$current" 2>/dev/null)
        set -l parts (string split \t -- $line)
        switch $parts[1]
            case plain
                printf '%s\t%s\n' $parts[2] $parts[3]
            case file
                __fish_complete_path "$current"
            case dir
                __fish_complete_directories "$current"
        end
    end
end
complete --no-files --command lmi --arguments '(__lmi_complete)'
"""
SCRIPTS: Final = {"bash": _BASH.lstrip(), "zsh": _ZSH.lstrip(), "fish": _FISH.lstrip()}
