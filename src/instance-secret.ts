/** The instance secret of an embedded database: a file of mode 600 in the data folder, made at the first start. */
import { randomBytes } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode, makeFolder, unique } from './files.js';

/** Reads the secret, or makes it. Two starters at once end up with the same. */
export async function instanceSecret(dataDir: string): Promise<string> {
  await makeFolder(dataDir, 0o711);
  const file = join(dataDir, 'secret');
  const draft = join(dataDir, `secret.${unique()}`);
  await writeFile(draft, `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600, flag: 'wx' });
  try {
    // A link appears whole or not at all, and never in place of another.
    await link(draft, file);
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  } finally {
    await rm(draft, { force: true });
  }
  return (await readFile(file, 'utf8')).trim();
}
