/** What could be the last word of a command line, from the commands themselves. */
import { type Argument, type Command, Option } from 'commander';
import type { Candidate } from './scripts.js';

/** What only files, the profiles or the service know. */
export interface Places {
  tables: (profile: string | undefined) => Promise<string[]>;
  profiles: () => Promise<string[]>;
}

export type Candidates = readonly Candidate[] | 'files';

/**
 * @param words behind the name of the command; the last is the one that is typed, as far as it is
 * @param command that the words belong to
 */
export async function candidatesFor(command: Command, words: readonly string[], places: Places): Promise<Candidates> {
  const { owner, rest } = subcommand(command, joined(words));
  const current = rest.at(-1) ?? '';
  const before = rest.slice(0, -1);
  const options = owner.createHelp().visibleOptions(owner);
  const profile = valueOf('--profile', rest);

  const [, long, part] = /^(--[\w-]+)=(.*)$/s.exec(current) ?? [];
  if (long !== undefined && part !== undefined) {
    const values = matching(await valuesOf(findOption(options, long), profile, places), part);
    return values === 'files' ? values : values.map((each) => ({ ...each, value: `${long}=${each.value}` }));
  }
  const waiting = before.includes('--') ? undefined : findOption(options, before.at(-1));
  if (waiting !== undefined && takesValue(waiting)) return matching(await valuesOf(waiting, profile, places), current);
  if (current.startsWith('-') && !before.includes('--')) return matching(options.flatMap(namesOf), current);
  if (owner.commands.length > 0) {
    const commands = owner.createHelp().visibleCommands(owner);
    return matching(
      commands.map((each) => ({ value: each.name(), description: each.description() })),
      current,
    );
  }
  const argument = argumentAt(owner, placesTaken(before, options));
  return argument === undefined ? [] : matching(await valuesOf(argument, profile, places), current);
}

/** bash parts words at `=`: `--table`, `=`, `x`. */
function joined(words: readonly string[]): string[] {
  const all: string[] = [];
  for (const [i, word] of words.entries()) {
    const isEquals = word === '=' && words[i - 1]?.startsWith('--') === true;
    if (!isEquals) all.push(word);
    else if (i === words.length - 1) all.push('');
  }
  return all;
}

function subcommand(command: Command, words: readonly string[]): { owner: Command; rest: readonly string[] } {
  const [first] = words;
  const found = words.length > 1 ? command.commands.find((each) => each.name() === first) : undefined;
  return found === undefined ? { owner: command, rest: words } : subcommand(found, words.slice(1));
}

const findOption = (options: readonly Option[], name: string | undefined): Option | undefined =>
  options.find(({ long, short }) => name !== undefined && (name === long || name === short));

const takesValue = (option: Option): boolean => option.required || option.optional;

const namesOf = ({ long, short, description }: Option): Candidate[] =>
  [long, short].flatMap((value) => (value ? [{ value, description }] : []));

/** Words that are arguments: neither options nor their values. */
function placesTaken(before: readonly string[], options: readonly Option[]): number {
  return before.filter((word, i) => {
    const option = findOption(options, before[i - 1]);
    return !word.startsWith('-') && !(option !== undefined && takesValue(option));
  }).length;
}

function argumentAt({ registeredArguments: all }: Command, place: number): Argument | undefined {
  const last = all.at(-1);
  return all[place] ?? (last?.variadic ? last : undefined);
}

function valueOf(name: string, words: readonly string[]): string | undefined {
  const at = words.indexOf(name);
  return at === -1 || at >= words.length - 1 ? undefined : words[at + 1];
}

/** What it takes stands in its name: `<FILE>`, `<TABLE>`, `--profile <NAME>`. */
async function valuesOf(
  place: Option | Argument | undefined,
  profile: string | undefined,
  { tables, profiles }: Places,
): Promise<Candidates> {
  if (place === undefined) return [];
  if (place.argChoices !== undefined) return plain(place.argChoices);
  const name = place instanceof Option ? place.flags : place.name();
  if (/FILE|DIR|PATH/.test(name)) return 'files';
  if (/--profile\b/.test(name)) return plain(await profiles());
  if (/--table\b.*<NAME>|^TABLE$/.test(name)) return plain(await tables(profile));
  return [];
}

const plain = (values: readonly string[]): Candidate[] => values.map((value) => ({ value, description: '' }));

const matching = (candidates: Candidates, beginning: string): Candidates =>
  candidates === 'files' ? candidates : candidates.filter(({ value }) => value.startsWith(beginning));
