/** Makes a data folder of what a backup holds, so that the next start of a server on it is a restore. */
import { chown, mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { RECOVERY_SETTINGS, RECOVERY_SIGNAL, type Recovery, recoverySettings } from './recovery.js';

export interface BackupFile {
  /** Below the data folder. */
  readonly path: string;
  readonly content: AsyncIterable<Buffer> | Iterable<Buffer>;
}

interface LayOut {
  /** As the copy named them. */
  readonly folders: readonly string[];
  readonly files: AsyncIterable<BackupFile> | Iterable<BackupFile>;
  readonly recovery: Recovery;
  /** Who the server runs as. */
  readonly account: { readonly uid: number; readonly gid: number };
}

/**
 * Everything is on the disk afterwards. Postgres would see to that only after a crash, which a stopped server's copy does not
 * look like; Node has no syncfs, and sync(1) of one file system is not on every machine: so each file is flushed, after the last is
 * written, when most of them are on the disk already.
 * @param dataFolder does not exist, in a folder that does. The caller takes it away when this fails
 * @throws Error for a path that leads out of the folder, or comes twice
 */
export async function layOut(dataFolder: string, { folders, files, recovery, account }: LayOut): Promise<void> {
  const paths = [dataFolder];
  const makeFolder = async (path: string) => {
    await mkdir(path, { mode: 0o700 });
    await chown(path, account.uid, account.gid);
  };
  const makeFile = async (path: string, content: BackupFile['content']) => {
    const file = await open(path, 'wx', 0o600);
    try {
      for await (const part of content) await file.writeFile(part);
      await file.chown(account.uid, account.gid);
    } finally {
      await file.close();
    }
    paths.push(path);
  };
  await makeFolder(dataFolder);
  for (const folder of folders) {
    const path = below(dataFolder, folder);
    await makeFolder(path);
    paths.push(path);
  }
  for await (const { path, content } of files) await makeFile(below(dataFolder, path), content);
  await makeFile(join(dataFolder, RECOVERY_SETTINGS), [Buffer.from(recoverySettings(recovery))]);
  await makeFile(join(dataFolder, RECOVERY_SIGNAL), []);
  for (const path of [...paths, dirname(dataFolder)]) await flush(path);
}

/** A backup comes from a file, which may have been changed on its way. */
function below(dataFolder: string, path: string): string {
  const isPlain = path.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0'));
  if (!isPlain) throw new Error(`The backup has a file "${path}", which would not be in the data folder`);
  return join(dataFolder, path);
}

async function flush(path: string): Promise<void> {
  const handle = await open(path, 'r');
  await handle.sync().finally(() => handle.close());
}
