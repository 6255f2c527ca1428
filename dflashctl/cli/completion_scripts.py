"""What a shell runs to learn which words fit: it asks the program itself."""

BASH = r"""# Completion of dflashctl for bash 3.2 and newer. Made by: dflashctl completion bash
_dflashctl() {
    local found word
    found=$(_DFLASHCTL_COMPLETE=bash "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ $? -eq 1 ] && type compopt >/dev/null 2>&1; then
        compopt -o default
    fi
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        [ -n "$word" ] && COMPREPLY+=("$word")
    done <<< "$found"
}
complete -F _dflashctl dflashctl
"""

ZSH = r"""#compdef dflashctl
# Completion of dflashctl for zsh. Made by: dflashctl completion zsh
_dflashctl() {
    local found line code
    local -a words_found
    found=$(_DFLASHCTL_COMPLETE=zsh "${words[1]}" "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)
    code=$?
    for line in "${(@f)found}"; do
        [[ -n "$line" ]] && words_found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    (( $#words_found )) && _describe -t words word words_found
    (( code == 1 )) && _files
    return 0
}
# Read by `source` it makes itself known; from a folder of fpath it is the function itself.
if [[ "${funcstack[1]}" == _dflashctl ]]; then
    _dflashctl "$@"
else
    compdef _dflashctl dflashctl
fi
"""

FISH = r"""# Completion of dflashctl for fish 3 and newer. Made by: dflashctl completion fish
function __dflashctl_complete
    set -l so_far (commandline -opc)
    set -l last (commandline -ct)
    env _DFLASHCTL_COMPLETE=fish $so_far[1] $so_far[2..-1] "$last" 2>/dev/null
    if test $status -eq 1
        __fish_complete_path "$last"
    end
end
complete -c dflashctl -f -a '(__dflashctl_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
