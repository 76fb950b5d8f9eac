/**
 * Several projects at once into one tar file: each into a file of its own first, as members of a tar file follow each
 * other.
 */
import { open, rm } from 'node:fs/promises';
import { type Add, readMember, TarWriter } from './tar.js';

/** Saves one project through `add`, which writes to this file. */
export type SaveInto<T> = (add: Add, file: string) => Promise<T>;

/** What a project that cannot be saved has left is removed. @param file that `tar` writes to */
export async function directly<T>(tar: TarWriter, file: string, save: SaveInto<T>): Promise<T> {
  const start = tar.position;
  try {
    return await save(tar.add, file);
  } catch (error) {
    await tar.truncate(start);
    throw error;
  }
}

/** The last use of each tar file: one at a time appends to it. */
const turns = new WeakMap<TarWriter, Promise<unknown>>();

/** @param file is made, and removed again */
export async function throughFile<T>(tar: TarWriter, file: string, save: SaveInto<T>): Promise<T> {
  const handle = await open(file, 'wx', 0o600);
  try {
    const own = new TarWriter(handle, new Date());
    const saved = await save(own.add, file);
    const before = turns.get(tar);
    const append = async () => {
      await before?.catch(() => {});
      await directly(tar, file, async (add) => {
        for (const member of own.contents) await add(member.name, readMember(file, member) as AsyncIterable<Buffer>);
      });
    };
    const appended = append();
    turns.set(tar, appended);
    await appended;
    return saved;
  } finally {
    await handle.close();
    await rm(file, { force: true });
  }
}

/**
 * Up to `jobs` at a time. The first failure aborts the others, which are waited for. @throws it, or the reason of the
 * signal
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
