/**
 * Translates the driver's login for libpq: the same server, the same trust, and no other variables of our environment.
 */
import { rmSync, statSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { libpqEnvironment } from '../../../src/backup/logical/client-programs.js';
import { addressOfUrl } from '../../../src/pg/index.js';
import { makeFolder } from '../../support/folder.js';

const folder = makeFolder('cdp-libpq-');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const environmentOf = (query: string) =>
  libpqEnvironment(addressOfUrl(`postgres://me:p%20w@db.example.com:5433/mine${query}`), folder);

const LOGIN = { PGHOST: 'db.example.com', PGPORT: '5433', PGUSER: 'me', PGPASSWORD: 'p w', PGDATABASE: 'mine' };

describe('works:', () => {
  it.each([
    ['', 'disable'],
    ['?sslmode=disable', 'disable'],
    ['?sslmode=no-verify', 'require'],
    ['?sslmode=require', 'verify-full'],
    ['?sslmode=verify-full', 'verify-full'],
  ])('maps %s to the sslmode %s', async (query, mode) => {
    expect(await environmentOf(query)).toMatchObject({ ...LOGIN, PGSSLMODE: mode });
  });

  it('trusts what the driver trusts: the certificate of the URL, or the ones that come with Node', async () => {
    const own = `${folder}/own.crt`;
    await writeFile(own, 'a certificate');
    const named = await environmentOf(`?sslmode=verify-full&sslrootcert=${own}`);
    expect(await readFile(named.PGSSLROOTCERT ?? '', 'utf8')).toBe('a certificate');
    const { PGSSLROOTCERT: file = '' } = await environmentOf('?sslmode=verify-full');
    expect(await readFile(file, 'utf8')).toMatch(/^-----BEGIN CERTIFICATE-----/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });
});

describe('protects:', () => {
  it('passes on no other variables of our environment', async () => {
    const names = Object.keys(await environmentOf('?sslmode=verify-full'));
    expect(names.filter((name) => !/^(PG[A-Z_]+|LC_ALL)$/.test(name))).toEqual([]);
  });
});
