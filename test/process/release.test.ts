/** A release: the same commit gives the same bytes anywhere, and every build says what it was made from. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFile, mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { VERSION } from '../../src/version.js';
import { copyTree, git, linkModules } from '../support/copied-tree.js';
import { endEverything, newFolder } from '../support/program.js';

const run = promisify(execFile);

/** In no time zone of these tests the day of their own. */
const DATE = '2026-05-04T23:30:00+02:00';

let origin: string;
beforeAll(async () => {
  origin = join(await newFolder(), 'origin');
  await copyTree(origin);
  await git(origin, DATE, 'init', '--quiet');
  await git(origin, DATE, 'add', '--all');
  await git(origin, DATE, 'commit', '--quiet', '--message', 'a release');
});
afterAll(endEverything);

interface Release {
  readonly folder: string;
  readonly packages: readonly string[];
}

/** Both packages, as CONTRIBUTING.md says, from a clean clone. @param path of the clone, below a new folder */
async function release(path: string, environment: Record<string, string>): Promise<Release> {
  const above = await newFolder();
  const folder = join(above, path);
  await git(above, DATE, 'clone', '--quiet', origin, folder);
  await linkModules(folder);
  const packed = join(above, 'packed');
  await mkdir(packed);
  const packages: string[] = [];
  for (const source of ['.', './packages/client']) {
    const args = ['pack', source, '--silent', '--pack-destination', packed];
    const env = { PATH: process.env.PATH, HOME: above, ...environment };
    const { stdout } = await run('npm', args, { cwd: folder, env, maxBuffer: 16 * 1024 * 1024 });
    packages.push(join(packed, stdout.trim().split('\n').at(-1) ?? ''));
  }
  return { folder, packages };
}

const sha512 = async (path: string) =>
  createHash('sha512')
    .update(await readFile(path))
    .digest('hex');

const versionIn = async (folder: string) =>
  (await run(process.execPath, [join(folder, 'dist/cli/bin.js'), '--version'])).stdout.trimEnd();

describe('two clean clones of a commit', () => {
  let releases: Release[];
  let commit: string;
  beforeAll(async () => {
    releases = [
      await release('one', { TZ: 'Asia/Tokyo', LANG: 'C' }),
      await release('another/place of it', { TZ: 'America/Los_Angeles', LANG: 'tr_TR.UTF-8' }),
    ];
    commit = (await git(origin, DATE, 'rev-parse', 'HEAD')).slice(0, 8);
  });
  const inSecond = (path = '') => join(releases[1]?.folder ?? '', path);

  it('give packages of the same bytes', async () => {
    const [one, another] = await Promise.all(releases.map(({ packages }) => Promise.all(packages.map(sha512))));
    expect(one).toHaveLength(2);
    expect(one).toEqual(another);
  });

  it('say the commit and its date, also what is unpacked without git', async () => {
    const version = `${VERSION} (${commit}, 2026-05-04)`;
    expect(await versionIn(inSecond())).toBe(version);
    // There it finds the packages that it depends on.
    const unpacked = inSecond('node_modules/unpacked');
    await mkdir(unpacked);
    await run('tar', ['-xzf', releases[1]?.packages[0] ?? '', '--strip-components', '1', '-C', unpacked]);
    expect(await versionIn(unpacked)).toBe(version);
  });

  it('say that they are dirty, follow the next commit, and without git say what sources they have', async () => {
    const build = async () => {
      await run(process.execPath, ['scripts/build.mjs'], { cwd: inSecond() });
      return versionIn(inSecond());
    };
    await appendFile(inSecond('README.md'), 'changed\n');
    const dirty = await build();
    expect(dirty).toMatch(/, 2026-05-04, dirty, sources [0-9a-f]{8}\)$/);
    expect(dirty).toContain(`${VERSION} (${commit}, `);

    const later = '2026-05-06T00:00:00Z';
    await git(inSecond(), later, 'commit', '--quiet', '--all', '--message', 'another');
    const next = (await git(inSecond(), later, 'rev-parse', 'HEAD')).slice(0, 8);
    expect(next).not.toBe(commit);
    expect(await build()).toBe(`${VERSION} (${next}, 2026-05-06)`);

    await rm(inSecond('.git'), { recursive: true });
    expect(await build()).toBe(`${VERSION} (${dirty.slice(-17)}`);
  });
});
