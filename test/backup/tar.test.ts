/**
 * The tar file of a backup: `tar` reads what we write, including sizes too large for octal digits, and we read it too.
 */
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { header, readMembers, TarWriter } from '../../src/backup/tar.js';
import { makeFolder } from '../support/folder.js';

const folder = makeFolder('cdp-tar-');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const DATE = new Date('2026-01-02T03:04:05Z');
const path = (name: string) => join(folder, name);

async function writing(name: string, work: (tar: TarWriter, file: FileHandle) => Promise<unknown>) {
  const file = await open(path(name), 'wx+');
  try {
    await work(new TarWriter(file, DATE), file);
    return await readMembers(file);
  } finally {
    await file.close();
  }
}

const listed = (name: string) => execFileSync('tar', ['-tvf', path(name)], { env: { TZ: 'UTC' } }).toString();

describe('works:', () => {
  it('the longest possible path of a project', async () => {
    const name = `projects/${'p'.repeat(63)}/data/global/pg_filenode.map_of_a_relation`;
    const members = await writing('long', async (tar) => {
      await tar.add(name, [Buffer.from('here')]);
      await tar.finish();
    });
    expect([...members.keys()]).toEqual([name]);
    expect(execFileSync('tar', ['-xOf', path('long'), name]).toString()).toBe('here');
  });

  it.each([0, 1, 511, 512, 513, 100_000])('a member of %i bytes', async (size) => {
    const name = `size-${size}`;
    const members = await writing(name, async (tar) => {
      await tar.add('projects/a.dump', [Buffer.alloc(size, 'x')]);
      await tar.add('last', [Buffer.from('end')]);
      await tar.finish();
    });
    expect([...members.values()].map((member) => [member.name, member.size])).toEqual([
      ['projects/a.dump', size],
      ['last', 3],
    ]);
    expect(execFileSync('tar', ['-xOf', path(name), 'projects/a.dump']).toString()).toBe('x'.repeat(size));
    expect(listed(name)).toMatch(/^-rw------- 0\/0 +\d+ 2026-01-02 03:04 projects\/a\.dump\n/);
  });

  it.each([8 ** 11 - 1, 8 ** 11, 9 * 2 ** 40])('a header for %i bytes in a sparse file', async (size) => {
    const name = `large-${size}`;
    const members = await writing(name, async (_tar, file) => {
      await file.write(header('large', size, DATE), 0, 512, 0);
      await file.truncate(512 + Math.ceil(size / 512) * 512 + 1_024);
    });
    expect(members.get('large')).toEqual({ name: 'large', offset: 512, size });
    expect(listed(name)).toContain(` ${size} 2026-01-02 03:04 large`);
  });
});

describe('refuses:', () => {
  it('a group with a member that fails; the next group takes its place', async () => {
    const members = await writing('failed', async (tar) => {
      await tar.add('one', [Buffer.from('1')]);
      const failing = async function* () {
        yield Buffer.alloc(10_000);
        await Promise.reject(new Error('cut off'));
      };
      const two = tar.group(async () => {
        await tar.add('whole', [Buffer.from('2')]);
        await tar.add('two', failing());
      });
      const three = tar.group(() => tar.add('three', [Buffer.from('3')]));
      await expect(two).rejects.toThrow('cut off');
      await three;
      await tar.finish();
    });
    expect([...members.keys()]).toEqual(['one', 'three']);
    expect(listed('failed').split('\n')).toHaveLength(3);
  });

  it('a duplicate name, a name that is too long, and anything but regular files', async () => {
    const twice = writing('twice', async (tar) => {
      await tar.add('one', []);
      await tar.add('one', []);
      await tar.finish();
    });
    await expect(twice).rejects.toThrow('It has "one" twice');
    expect(() => header('x'.repeat(100), 0, DATE)).toThrow('too long');
    execFileSync('tar', ['--format=ustar', '-cf', path('link'), '-C', '/proc/self', 'exe']);
    const file = await open(path('link'));
    await expect(readMembers(file)).rejects.toThrow('It is not a backup of cdp');
    await file.close();
  });
});
