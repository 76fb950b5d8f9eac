/**
 * The destination of an export: a file, which gets its name when it is complete; a device or a pipe; standard output.
 */
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { realpath, rename, rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { isMissing } from '../../files.js';
import { UsageError } from '../exit.js';
import { printChunks } from '../terminal/output.js';
import { requireFolderOf } from './user-files.js';

const STDOUT: readonly string[] = ['-', '/dev/stdout'];

const DESCRIPTOR = /^\/(?:dev\/(?:fd\/|std)|proc\/)/;

export const isStdout = (output: string): boolean => STDOUT.includes(output);

type Chunks = AsyncIterable<Uint8Array | string>;

type Write = (chunks: Chunks) => Promise<void>;

/**
 * @param output path, or `-`
 * @param overwrites whether it may replace a file
 * @param onFailure called at once if a file cannot be written; the function rejects only after the next chunk
 * @returns a function that writes there, once; nothing changes before its call
 * @throws UsageError if a file cannot be created there, or already exists
 */
export async function outputTo(output: string, overwrites: boolean, onFailure: () => void): Promise<Write> {
  if (isStdout(output)) return printChunks;
  const isGzipped = /\.gz$/i.test(output);
  const found = await stat(output).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
  if (found?.isDirectory()) throw new UsageError(`${output} is a folder`);
  // A rename would replace a device or a pipe with a file. A descriptor may refer to either.
  if (found && (!found.isFile() || DESCRIPTOR.test(output)))
    return (chunks) => write(chunks, output, isGzipped, { flags: 'a' }, onFailure);
  if (found && !overwrites) throw new UsageError(`The file ${output} exists`, 'Overwrite it with --force');
  await requireFolderOf(output);
  return async (chunks) => {
    // Keeps a symbolic link as it is, and the mode of an existing file.
    const target = found ? await realpath(output) : output;
    const draft = `${target}.${randomBytes(4).toString('hex')}.part`;
    try {
      const mode = (found?.mode ?? 0o666) & 0o777;
      await write(chunks, draft, isGzipped, { flags: 'wx', flush: true, mode }, onFailure);
      await rename(draft, target);
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
  };
}

type FileOptions = Exclude<Parameters<typeof createWriteStream>[1], string | undefined>;

function write(
  chunks: Chunks,
  path: string,
  isGzipped: boolean,
  options: FileOptions,
  onFailure: () => void,
): Promise<void> {
  const file = createWriteStream(path, options).once('error', onFailure);
  return isGzipped ? pipeline(chunks, createGzip(), file) : pipeline(chunks, file);
}
