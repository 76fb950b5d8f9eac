/**
 * `cdp completion bash|zsh|fish`: prints the script for a shell. The script runs `cdp completion SHELL -- WORDS`, which
 * prints candidates for the last word, one per line, or `:files`. So commands and options are defined only once.
 */
import { Argument, Command, Option } from 'commander';
import { NAME_PATTERN } from '../contract/names.js';
import { clientFor, findProfile, readProfiles } from './remote/profiles.js';

const FILES = ':files';

/**
 * Also for bash 3.2, the version of macOS: without `mapfile` and `compopt`. If there are no candidates, `-o default`
 * completes files.
 */
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
# zsh completion of cdp. In ~/.zshrc, after compinit: source <(cdp completion zsh)
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

interface Candidate {
  readonly value: string;
  readonly description: string;
}

type Candidates = readonly Candidate[] | typeof FILES;

/** The script, and the separator between a candidate and its description. */
const SHELLS = {
  bash: { script: BASH, separator: null },
  zsh: { script: ZSH, separator: ':' },
  fish: { script: FISH, separator: '\t' },
} as const;

type Commands = Readonly<Record<string, () => Promise<Command>>>;

/** Short, because the user waits after pressing Tab. */
const TIMEOUT_MS = 1_500;

export function completionCommand(commands: Commands): Command {
  return new Command('completion')
    .description('Print a script that completes commands, options and tables in your shell')
    .addArgument(new Argument('<SHELL>').choices(Object.keys(SHELLS)))
    .argument('[WORDS...]', 'Words of a command line, after --; completions of the last one are printed')
    .addHelpText('after', '\nIn ~/.bashrc: source <(cdp completion bash)')
    .action(async (name: keyof typeof SHELLS, words: string[]) => {
      const { script, separator } = SHELLS[name];
      if (words.length === 0) return void process.stdout.write(script);
      // A message would become part of the command line.
      const candidates = await candidatesFor(commands, words).catch(() => []);
      const lines = candidates === FILES ? [FILES] : candidates.map((candidate) => lineOf(candidate, separator));
      process.stdout.write(lines.map((line) => `${line}\n`).join(''));
    });
}

const lineOf = ({ value, description }: Candidate, separator: string | null): string =>
  separator === null || description === '' ? value : value + separator + description;

async function candidatesFor(commands: Commands, typed: readonly string[]): Promise<Candidates> {
  // --table=x is one word, but three in bash, which also splits words at =.
  const prefix = /^--[\w-]+=/.exec(typed.at(-1) ?? '')?.[0] ?? '';
  const words = typed
    .map((word, i) => (word === '=' && i === typed.length - 1 ? '' : word))
    .filter((word) => word !== '=')
    .flatMap((word) => /^(--[\w-]+)=(.*)$/s.exec(word)?.slice(1) ?? [word]);
  const current = words.at(-1) ?? '';
  const candidates = await lastWordOf(commands, words.slice(0, -1), current);
  if (candidates === FILES) return FILES;
  return candidates
    .filter(({ value }) => value.startsWith(current))
    .map(({ value, description }) => ({ value: prefix + value, description }));
}

async function lastWordOf(commands: Commands, before: readonly string[], current: string): Promise<Candidates> {
  const [first, ...rest] = before;
  if (first === undefined) return plain([...Object.keys(commands), ...(current === '' ? [] : ['--help', '--version'])]);
  let command = Object.hasOwn(commands, first) ? await commands[first]?.() : undefined;
  while (command !== undefined && command.commands.length > 0 && rest.length > 0) {
    const name = rest.shift();
    command = command.commands.find((each) => each.name() === name);
  }
  if (command === undefined) return [];
  const help = command.createHelp();
  const options = help.visibleOptions(command);
  const withValue = (word = '') =>
    options.find(({ long, short, required, optional }) => (required || optional) && (word === long || word === short));
  const profile = rest[rest.indexOf('--profile') + 1 || rest.length];
  const option = withValue(rest.at(-1));
  if (option !== undefined) return valuesOf(option, profile);
  if (current.startsWith('-')) {
    return options.flatMap(({ long, short, description }) =>
      [long, short].flatMap((value) => (value ? [{ value, description }] : [])),
    );
  }
  if (command.commands.length > 0) {
    return help.visibleCommands(command).map((each) => ({ value: each.name(), description: each.description() }));
  }
  const position = rest.filter((word, i) => !word.startsWith('-') && withValue(rest[i - 1]) === undefined).length;
  const last = command.registeredArguments.at(-1);
  const argument = command.registeredArguments[position] ?? (last?.variadic ? last : undefined);
  return argument === undefined ? [] : valuesOf(argument, profile);
}

/** The placeholder shows the kind of value: `<FILE>`, `<TABLE>`, `--profile <NAME>`. */
async function valuesOf(place: Option | Argument, profile: string | undefined): Promise<Candidates> {
  if (place.argChoices !== undefined) return plain(place.argChoices);
  const name = place instanceof Option ? place.flags : place.name();
  if (/FILE|DIR|PATH/.test(name)) return FILES;
  if (/--profile\b|^PROFILE$/.test(name)) return plain(Object.keys(await readProfiles()));
  if (/--table\b.*<NAME>|^TABLE$/.test(name)) return plain(await tableNames(profile));
  return [];
}

const plain = (values: readonly string[]): Candidate[] => values.map((value) => ({ value, description: '' }));

/** Only names that the API allows; any other could contain code for the shell. */
async function tableNames(profile: string | undefined): Promise<string[]> {
  const client = clientFor(await findProfile(profile), 0);
  const tables = await client.tables({ signal: AbortSignal.timeout(TIMEOUT_MS) });
  const pattern = new RegExp(NAME_PATTERN);
  return tables.map(({ name }) => name).filter((name) => pattern.test(name));
}
