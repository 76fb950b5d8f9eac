/**
 * Words that are not English, or that readers of the docs stumbled over, stay out of the pages and the messages of the
 * program.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { root } from './markdown.js';

/** What not to write, and what to write instead. */
const AVOID: readonly (readonly [RegExp, string])[] = [
  [/\banew\b/i, 'again, from the beginning'],
  [/\bbeside\b/i, 'next to, besides, in addition to'],
  [/\b(be|is|are|was|were) told\b/i, 'say who tells it'],
  [/\bso many\b/i, 'the number'],
  [/\bcould not be had\b/i, 'was not available'],
  [/\b(as|for) ever\b/i, 'as usual; always'],
  [/(^|[.:;] )(Who|Whoever|whoever) (?!did\b)/, 'if you have, anyone with'],
  [/\bnobody knows which\b/i, 'say what is unknown'],
  [/\b(it|this|that|name|type) is no (?!longer\b|more\b)[a-z]+/i, 'is not a'],
];

const filesBelow = (folder: string, ending: RegExp): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => ending.test(path))
    .map((path) => join(folder, path));

/** Code and comments have words of their own. */
const prose = (text: string): string => text.replace(/^```[^]*?^```/gm, '').replace(/`[^`\n]*`/g, '`…`');
const withoutComments = (text: string): string => text.replace(/\/\*[^]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '');

const found = (path: string, text: string): string[] =>
  text
    .split('\n')
    .flatMap((line) =>
      AVOID.flatMap(([pattern, use]) => (pattern.test(line) ? [`${path}: ${line.trim()} (${use})`] : [])),
    );

it('no page contains them', () => {
  const pages = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', ...filesBelow('docs', /^[\w-]+\.md$/)];
  expect(pages.length).toBeGreaterThan(20);
  expect(pages.flatMap((page) => found(page, prose(readFileSync(join(root, page), 'utf8'))))).toEqual([]);
});

it('no message contains them', () => {
  const sources = filesBelow('src', /\.ts$/);
  expect(sources.flatMap((file) => found(file, withoutComments(readFileSync(join(root, file), 'utf8'))))).toEqual([]);
});

it('no message ends with a full stop', () => {
  const ENDS =
    /new (?:EngineError|UsageError|ExitError|ConfigError)\(\s*(?:'\w+',\s*|EXIT\.\w+,\s*)?(['`])((?:(?!\1)[^\n])*[^.]\.)\1/g;
  const sources = filesBelow('src', /\.ts$/);
  const stops = sources.flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8');
    return Array.from(text.matchAll(ENDS), ([, , message]) => `${file}: ${message}`);
  });
  expect(stops).toEqual([]);
});
