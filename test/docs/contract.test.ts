/** docs/contract.md: each rule has tests that exist, and whoever cites a rule cites one that exists, by its number. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { markdownFiles, read, root } from './markdown.js';

const PAGE = 'docs/contract.md';

interface Rule {
  readonly number: string;
  /** Number of the heading that it stands below. */
  readonly group: string;
  readonly tests: readonly { readonly file: string; readonly title: string }[];
  /** What stands below it and names no test. */
  readonly rest: string;
}

/** The titles of one file, as `"one title", "another"`; a title may have quotes in it. */
const TITLES = /"(.+?)"(?:, (?=")|$)/g;

/** The rules of a page: each is an item of a list, and below it each file of tests with its titles. */
function rulesIn(markdown: string): Rule[] {
  return markdown.split(/^## /m).flatMap((section) => {
    const group = /^C\d+/.exec(section)?.[0] ?? '';
    return section.split(/^- (?=\*\*C\d)/m).flatMap((item, i) => {
      const [rule = '', ...files] = item.split(/^ {2}- /m).map((text) => text.trim().replace(/\s+/g, ' '));
      const number = /^\*\*(C[\d.]+)\*\* \S/.exec(rule)?.[1];
      if (number === undefined) return i === 0 ? [] : [{ number: rule, group, tests: [], rest: '' }];
      const named = files.map((text) => ({ text, match: /^`(.+?)`: (.+)$/.exec(text) }));
      const tests = named.flatMap(({ match }) =>
        Array.from(match?.[2]?.matchAll(TITLES) ?? [], ([, title = '']) => ({
          file: `${match?.[1] ?? ''}.test.ts`,
          title,
        })),
      );
      const rest = named.filter(({ match }) => match?.[2]?.replace(TITLES, '') !== '').map(({ text }) => text);
      return [{ number, group, tests, rest: rest.join('\n') }];
    });
  });
}

/** Whether the text has the title as a string, as the first argument of a test. */
const hasTitle = (text: string, title: string): boolean =>
  [`'${title.replaceAll("'", String.raw`\'`)}'`, `"${title}"`, `\`${title}\``].some((string) =>
    text.includes(`${string},`),
  );

/** A comment that goes on in the next line reads as one line. */
const inOneLine = (text: string): string => text.replace(/\s*\n\s*(?:\*(?!\/)|\/\/|--|#)?\s*/g, ' ');

/** Numbers of rules anywhere, and of groups in a list after the word: elsewhere C0 may be something else. */
function citedIn(text: string): string[] {
  const lists = text.match(/\bcontract C\d[\d.]*(?:(?:, | and | or | to )C\d[\d.]*)*/gi) ?? [];
  const groups = lists.flatMap((list) => list.match(/\bC\d+(?![\d.]*\.\d)\b/g) ?? []);
  return [...(text.match(/\bC\d+\.\d+\b/g) ?? []), ...groups];
}

/** Someone who speaks of rules without saying which. */
const NO_NUMBER =
  /\b(?:the|this|our) (?:contract|specification)\b(?!\]\()(?! C\d)|\b(?:contract|specification) (?:sections?|§|\d)/gi;

const withoutNumber = (text: string): string[] =>
  Array.from(text.matchAll(NO_NUMBER), ({ 0: found, index }) =>
    text.slice(Math.max(0, index - 40), index + found.length + 20),
  );

const rules = rulesIn(read(PAGE));
const numbers = rules.map(({ number }) => number);

/** Every text that may cite a rule. This file has examples of what must not be written. */
const texts = [
  ...markdownFiles(),
  ...['src', 'console', 'test', 'scripts', 'bench', 'examples', 'python'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => /\.(?:tsx?|mjs|sql|py)$/.test(path) && !path.includes('node_modules'))
      .map((path) => join(folder, path)),
  ),
].filter((file) => !['test/docs/contract.test.ts', PAGE].includes(file));

describe('docs/contract.md', () => {
  it('has each number once, below the heading of its group', () => {
    expect(rules.length).toBeGreaterThan(150);
    expect(numbers.filter((number, i) => numbers.indexOf(number) !== i)).toEqual([]);
    expect(rules.filter(({ number, group }) => !new RegExp(`^${group}\\.[1-9]\\d*$`).test(number))).toEqual([]);
  });

  it('names at least one test for each rule, and nothing else beside it', () => {
    expect(rules.filter(({ tests, rest }) => tests.length === 0 || rest !== '')).toEqual([]);
  });

  it('names only tests that exist', () => {
    const missing = rules.flatMap(({ number, tests }) =>
      tests
        .filter(({ file, title }) => !existsSync(join(root, file)) || !hasTitle(read(file), title))
        .map(({ file, title }) => `${number}: ${file}: ${title}`),
    );
    expect(missing).toEqual([]);
  });
});

describe('citations', () => {
  it('name only rules and groups that exist', () => {
    const known = new Set([...numbers, ...rules.map(({ group }) => group)]);
    const cited = texts.flatMap((file) => citedIn(inOneLine(read(file))).map((number) => ({ file, number })));
    expect(cited.length).toBeGreaterThan(50);
    expect(cited.filter(({ number }) => !known.has(number))).toEqual([]);
  });

  it('have a number: nobody cites rules as a whole, or a page that is not here', () => {
    const found = texts.flatMap((file) => withoutNumber(inOneLine(read(file))).map((words) => `${file}: ${words}`));
    expect(found).toEqual([]);
  });
});

describe('these tests', () => {
  const page = (...tests: string[]) =>
    ['## C9 Group', '', '- **C9.1** What holds, in', '  two lines.', ...tests.map((test) => `  - ${test}`), ''].join(
      '\n',
    );

  it('read several titles of several files, with quotes and over several lines', () => {
    expect(rulesIn(page('`test/a/b`: "one", "says "no",\n    twice"', '`test/c`:\n    "%s"'))).toEqual([
      {
        number: 'C9.1',
        group: 'C9',
        tests: [
          { file: 'test/a/b.test.ts', title: 'one' },
          { file: 'test/a/b.test.ts', title: 'says "no", twice' },
          { file: 'test/c.test.ts', title: '%s' },
        ],
        rest: '',
      },
    ]);
  });

  it.each([[], ['by hand'], ['`test/a`'], ['`test/a`: "one", and more'], ['`test/a`: "one"', 'by hand']])(
    'find that a rule is not held by %j',
    (...tests) => {
      const [rule] = rulesIn(page(...tests));
      expect(rule?.tests.length === 0 || rule?.rest !== '').toBe(true);
    },
  );

  it('find a title only where it is the whole title of a test', () => {
    expect(hasTitle(`it("it's so", () => {`, "it's so")).toBe(true);
    expect(hasTitle(String.raw`it('it\'s so', () => {`, "it's so")).toBe(true);
    expect(hasTitle(`it.each(ALL)(\n    '%s is "so"',\n`, '%s is "so"')).toBe(true);
    expect(hasTitle(`it('it is so at once', () => {`, 'it is so')).toBe(false);
  });

  it('find numbers, and words without one, across lines of a comment', () => {
    const comment = '/**\n * Inserts (contract C8.1 to C8.11,\n * C5.2; contract\n * C6, C7 and C0.5; C0).\n */';
    expect(citedIn(inOneLine(comment))).toEqual(['C8.1', 'C8.11', 'C5.2', 'C0.5', 'C6', 'C7']);
    for (const text of [
      'as the contract says',
      'in the\n * specification',
      'contract section 4',
      '(specification 4.1)',
    ])
      expect(withoutNumber(inOneLine(text))).not.toEqual([]);
    for (const text of ['contract C4.1', 'src/contract/names.ts', '[The contract](contract.md)', 'XDG Specification'])
      expect(withoutNumber(inOneLine(text))).toEqual([]);
  });
});
