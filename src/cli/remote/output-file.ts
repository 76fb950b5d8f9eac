/** Where an export goes: a file, which has its name when it is whole; a device or a pipe; standard output. */
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { UsageError } from './outcome.js';
import { printChunks } from './output.js';

const STDOUT: readonly string[] = ['-', '/dev/stdout'];

const DESCRIPTOR = /^\/(?:dev\/(?:fd\/|std)|proc\/)/;

export const isStdout = (output: string): boolean => STDOUT.includes(output);

type Chunks = AsyncIterable<Uint8Array | string>;

export type Write = (chunks: Chunks) => Promise<void>;

/**
 * @param output path, or `-`
 * @returns what writes there, once; until then nothing has changed
 * @throws UsageError where no file can be
 */
export async function outputTo(output: string): Promise<Write> {
  if (isStdout(output)) return printChunks;
  const isPacked = /\.gz$/i.test(output);
  const found = await stat(output).catch(unlessMissing);
  if (found?.isDirectory()) throw new UsageError(`${output} is a folder`);
  // In the place of a device or a pipe a file would be put; of a descriptor, which may lead to a file, too.
  if (found !== undefined && (!found.isFile() || DESCRIPTOR.test(output)))
    return (chunks) => written(chunks, output, isPacked, { flags: 'a' });
  await requireFolderOf(output);
  return async (chunks) => {
    // A link stays one, and a file that only some may read stays theirs.
    const target = found === undefined ? output : await realpath(output);
    const draft = `${target}.${randomBytes(4).toString('hex')}.part`;
    try {
      await written(chunks, draft, isPacked, { flags: 'wx', flush: true, mode: (found?.mode ?? 0o666) & 0o777 });
      await rename(draft, target);
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
  };
}

/** @throws UsageError where the file cannot be made, since its folder is missing */
export async function requireFolderOf(file: string): Promise<void> {
  const folder = dirname(file);
  const found = await stat(folder).catch(unlessMissing);
  if (found?.isDirectory() !== true) throw new UsageError(`There is no folder ${folder}`);
}

type FileOptions = Exclude<Parameters<typeof createWriteStream>[1], string | undefined>;

function written(chunks: Chunks, path: string, isPacked: boolean, options: FileOptions): Promise<void> {
  const file = createWriteStream(path, options);
  return isPacked ? pipeline(chunks, createGzip(), file) : pipeline(chunks, file);
}

function unlessMissing(error: unknown): undefined {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
}
