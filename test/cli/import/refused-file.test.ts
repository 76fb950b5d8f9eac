/** Where the file of refused records goes, whatever else is in that place. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { RefusedFile } from '../../../src/cli/import/refused-file.js';

it('creates the file in another folder if it cannot be next to its source, and never overwrites a file', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cdp-refused-'));
  try {
    for (const name of ['x.ndjson', 'x-2.ndjson']) {
      const file = new RefusedFile('/proc/x.ndjson', join(folder, 'x.ndjson'));
      file.create();
      file.close();
      expect(file.path).toBe(join(folder, name));
    }
    expect(() => new RefusedFile('/proc/x.ndjson').create()).toThrow();
  } finally {
    await rm(folder, { recursive: true });
  }
});

it('continues the file after its last complete line, whatever happened to it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cdp-refused-'));
  const path = join(folder, 'x.ndjson');
  const refusal = { record: { line: 7, json: '{}' }, errors: [] };
  const line = '{"file":"f","line":7,"record":{},"errors":[]}\n';
  try {
    for (const [content, known, kept] of [
      ['a\nb\n', 4, 'a\nb\n'],
      ['a\nb\nafter the journal\n', 4, 'a\nb\n'],
      ['a\nb\nhal', 30, 'a\nb\n'],
      [null, 30, ''],
    ] as const) {
      await rm(path, { force: true });
      if (content !== null) await writeFile(path, content);
      const file = new RefusedFile(path);
      expect(file.reopen(known)).toBe(kept.length);
      file.append('f', [refusal]);
      file.close();
      expect(await readFile(path, 'utf8')).toBe(kept + line);
    }
  } finally {
    await rm(folder, { recursive: true });
  }
});
