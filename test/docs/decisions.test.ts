/** docs/decisions/README.md lists every decision note once, under its title. */
import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const folder = new URL('../../docs/decisions/', import.meta.url);
const textOf = (file: string): string => readFileSync(new URL(file, folder), 'utf8');

it('lists each note with its number and title, and no others', () => {
  const notes = readdirSync(folder).filter((file) => file !== 'README.md');
  const expected = notes.map((file) => {
    const [, number, title] = /^# (\d{4}): (.+)\n/.exec(textOf(file)) ?? [];
    expect(file).toMatch(new RegExp(`^${number}-`));
    return `- [${number}](${file}): ${title}`;
  });
  const listed = textOf('README.md')
    .split('\n')
    .filter((line) => line.startsWith('- '));
  expect(listed.toSorted()).toEqual(expected.toSorted());
});
