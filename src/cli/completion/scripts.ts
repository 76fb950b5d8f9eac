/**
 * What a shell runs to complete `cdp …`: each script asks the program, so there is one list of commands and options. The
 * program answers a line a candidate, or the one line `:files`.
 */

export const FILES = ':files';

/** For bash 3.2 too, which macOS has: without `mapfile` and `compopt`. No candidates: files, by `-o default`. */
const BASH = `# bash completion of cdp. In ~/.bashrc: source <(cdp completion bash)
_cdp() {
  local candidate
  COMPREPLY=()
  while IFS= read -r candidate; do
    [[ $candidate == ${FILES} ]] || COMPREPLY+=("$candidate")
  done < <("$1" completion bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _cdp cdp
`;

const ZSH = `#compdef cdp
# zsh completion of cdp. In ~/.zshrc, behind compinit: source <(cdp completion zsh)
_cdp() {
  local -a candidates
  candidates=("\${(@f)$("\${words[1]}" completion zsh -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ \${candidates[1]} == ${FILES} ]]; then
    _files
  elif [[ -n \${candidates[1]} ]]; then
    _describe cdp candidates
  fi
}
compdef _cdp cdp
`;

const FISH = `# fish completion of cdp. Once: cdp completion fish > ~/.config/fish/completions/cdp.fish
function __cdp_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l candidates ($words[1] completion fish -- $words[2..-1] "$current" 2>/dev/null)
    if test "$candidates[1]" = ${FILES}
        __fish_complete_path "$current"
    else
        printf '%s\\n' $candidates
    end
end
complete -c cdp -f -a '(__cdp_complete)'
`;

export interface Candidate {
  readonly value: string;
  readonly description: string;
}

export interface Shell {
  readonly script: string;
  /** How the script wants a candidate. */
  line(candidate: Candidate): string;
}

export const SHELLS: Readonly<Record<'bash' | 'zsh' | 'fish', Shell>> = {
  bash: { script: BASH, line: ({ value }) => value },
  zsh: { script: ZSH, line: ({ value, description }) => (description === '' ? value : `${value}:${description}`) },
  fish: { script: FISH, line: ({ value, description }) => (description === '' ? value : `${value}\t${description}`) },
};
