/**
 * What `cdp completion` suggests for a command line; `test/tools/completion.test.ts` runs its scripts in the shells.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { person, type Person } from '../support/cdp.js';
import { endEverything, freePort } from '../support/program.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let ada: Person;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('people', { name: 'TEXT' });
  await project.rows('CREATE TABLE "$(touch pwned)" (n int); CREATE TABLE pets (n int)');
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

const candidates = async (...words: string[]): Promise<string[]> =>
  (await ada.output('completion', 'bash', '--', ...words)).split('\n').slice(0, -1);

describe('suggests', () => {
  it('commands, subcommands, options and choices', async () => {
    expect(await candidates('')).toContain('sql');
    expect(await candidates('des')).toEqual(['describe']);
    expect(await candidates('project', 'cr')).toEqual(['create']);
    expect(await candidates('sql', '--re')).toEqual(['--read-only']);
    expect(await candidates('export', '--format', '')).toEqual(['csv', 'json', 'ndjson', 'parquet']);
    expect(await candidates('export', '--format=n')).toEqual(['--format=ndjson']);
    expect(await candidates('export', '--format', '=', 'n')).toEqual(['ndjson']);
    expect(await candidates('completion', 'z')).toEqual(['zsh']);
  });

  it('tables, profiles and files in the positions that take them', async () => {
    expect(await candidates('describe', '')).toEqual(['people', 'pets']);
    expect(await candidates('describe', 'pe')).toEqual(['people', 'pets']);
    expect(await candidates('import', 'a.csv', '--table', 'peo')).toEqual(['people']);
    expect(await candidates('import', 'a')).toEqual([':files']);
    expect(await candidates('import', 'a.csv', 'b')).toEqual([':files']);
    expect(await candidates('export', '-o', '')).toEqual([':files']);
    await ada.run(['login', '--profile', 'shop', '--url', service.url], project.token);
    expect(await candidates('sql', '--profile', '')).toEqual(['shop']);
    expect(await candidates('describe', '--profile', 'shop', 'pet')).toEqual(['pets']);
  });

  it('descriptions if the shell shows them', async () => {
    const zsh = await ada.output('completion', 'zsh', '--', 'sql', '--json');
    expect(zsh).toBe('--json:Print an array of objects\n');
    expect(await ada.output('completion', 'fish', '--', 'sql', '--json')).toBe('--json\tPrint an array of objects\n');
  });
});

describe('refuses', () => {
  it('an unknown shell; suggests nothing if nothing fits', async () => {
    expect((await ada.run(['completion', 'csh'])).code).toBe(2);
    expect((await ada.run(['completion'])).code).toBe(2);
    expect(await candidates('nonsense', '')).toEqual([]);
    expect(await candidates('describe', 'people', '')).toEqual([]);
    const nowhere = await person({ CDP_URL: `http://127.0.0.1:${await freePort()}`, CDP_TOKEN: 'x' });
    expect(await nowhere.run(['completion', 'bash', '--', 'describe', ''])).toMatchObject({
      code: 0,
      stdout: '',
      stderr: '',
    });
  });
});
