/**
 * Writes several projects at once into one tar file. Each goes into a temporary file first, because the members of a
 * tar file are consecutive.
 */
import { open, rm } from 'node:fs/promises';
import { type Add, readMember, TarWriter } from './tar.js';

/** Saves one project through `add`, which appends to `file`. */
export type SaveInto<T> = (add: Add, file: string) => Promise<T>;

/** @param file to which `tar` writes */
export const directly = <T>(tar: TarWriter, file: string, save: SaveInto<T>): Promise<T> =>
  tar.group(() => save(tar.add, file));

/** @param file a temporary file, which this creates and removes */
export async function throughFile<T>(tar: TarWriter, file: string, save: SaveInto<T>): Promise<T> {
  const handle = await open(file, 'wx', 0o600);
  try {
    const own = new TarWriter(handle, new Date());
    const saved = await save(own.add, file);
    await tar.group(async () => {
      for (const member of own.contents) await tar.add(member.name, readMember(file, member) as AsyncIterable<Buffer>);
    });
    return saved;
  } finally {
    await handle.close();
    await rm(file, { force: true });
  }
}

/**
 * Processes up to `jobs` items at a time. The first failure aborts the others, and is thrown after they have ended.
 * @throws the first failure, or the signal's reason
 */
export async function forEachAtOnce<T>(
  items: readonly T[],
  jobs: number,
  signal: AbortSignal,
  work: (item: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const halt = new AbortController();
  const either = AbortSignal.any([signal, halt.signal]);
  const waiting = items.values();
  const worker = async () => {
    for (const item of waiting) {
      either.throwIfAborted();
      await work(item, either);
    }
  };
  const workers = Array.from({ length: jobs }, () => worker().catch((error: unknown) => halt.abort(error)));
  await Promise.all(workers);
  halt.signal.throwIfAborted();
}
