/** One version in every place that has one, and in the changelog (CONTRIBUTING.md, "Releases"). */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { isOlder } from '../src/version.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (file: string): string => readFileSync(root + file, 'utf8');

interface Manifest {
  version: string;
  packages: Record<string, { version?: string }>;
}
const manifest = (file: string): Manifest => JSON.parse(read(file)) as Manifest;
const { version } = manifest('package.json');

describe('the version of package.json', () => {
  it('is that of the lock file, of the client and of the Python package', () => {
    const lock = manifest('package-lock.json');
    expect({
      lock: lock.version,
      'package in the lock': lock.packages['']?.version,
      client: manifest('packages/client/package.json').version,
      python: /^__version__ = "(.+)"$/m.exec(read('python/src/cdp_data_engine/__init__.py'))?.[1],
    }).toEqual({ lock: version, 'package in the lock': version, client: version, python: version });
    // It has no number of its own.
    expect(read('python/pyproject.toml')).toMatch(/^dynamic = \["version"\]$/m);
  });

  it('is in the names of packages in the docs', () => {
    const pages = ['README.md', ...readdirSync(`${root}docs`, { encoding: 'utf8' }).map((name) => `docs/${name}`)];
    const named = pages
      .filter((page) => page.endsWith('.md'))
      .flatMap((page) => [...read(page).matchAll(/cdp-data-engine-(?:client-)?(\d[\w.-]*)\.tgz/g)])
      .map(([, number]) => number);
    expect(named.length).toBeGreaterThan(2);
    expect([...new Set(named)]).toEqual([version]);
  });
});

describe('CHANGELOG.md', () => {
  const [, ...sections] = read('CHANGELOG.md').split(/^## /m);
  const headings = sections.map((section) => section.split('\n', 1)[0] ?? '');
  const released = headings.filter((heading) => heading !== 'Unreleased').map((heading) => heading.split(' - '));

  it('has a section for the version: its own with a date, or Unreleased that announces it', () => {
    const [, opening = ''] = /^## Unreleased\n\n([^#]*)/m.exec(read('CHANGELOG.md')) ?? [];
    const announced = /\b\d+\.\d+\.\d+\b/.exec(opening)?.[0];
    expect([released[0]?.[0], announced]).toContain(version);
  });

  it('has the newest version first, each with its day', () => {
    expect(headings.indexOf('Unreleased')).toBeLessThan(1);
    expect(headings.length).toBe(new Set(headings).size);
    for (const heading of headings) expect(heading).toMatch(/^(?:Unreleased|\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d)$/);
    const pairs = released.slice(1).map((older, i) => [older, released[i] ?? []] as const);
    for (const [[older = '', before = ''], [newer = '', after = '']] of pairs) {
      expect(isOlder(older, newer)).toBe(true);
      expect(before <= after).toBe(true);
    }
  });

  it("has Keep a Changelog's headings in each section", () => {
    for (const section of sections) {
      const kinds = Array.from(section.matchAll(/^### (.+)$/gm), ([, kind]) => kind);
      expect(kinds).not.toEqual([]);
      expect(['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security']).toEqual(expect.arrayContaining(kinds));
    }
  });
});
