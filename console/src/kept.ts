/**
 * Saves a project's tabs, history and queries in IndexedDB. If the browser has none, they last until the page is
 * closed.
 */
import { currentSession, type Session } from './session.js';

export type Kind = 'tabs' | 'history' | 'saved';

const STORE = 'kept';
let opening: Promise<IDBDatabase> | undefined;
const memory = new Map<string, unknown>();

/** @param of the session whose project it is; default: the current one */
export async function readStored<Value>(kind: Kind, of = currentSession()): Promise<Value | undefined> {
  const key = keyOf(kind, of);
  try {
    const store = await openStore('readonly');
    return (await settled(store.get(key))) as Value | undefined;
  } catch {
    return memory.get(key) as Value | undefined;
  }
}

/** Reads and writes in one transaction, so that two windows do not overwrite each other's changes. */
export async function updateStored<Value>(
  kind: Kind,
  change: (old: Value | undefined) => Value,
  of = currentSession(),
): Promise<Value> {
  const key = keyOf(kind, of);
  try {
    const store = await openStore('readwrite');
    const value = change((await settled(store.get(key))) as Value | undefined);
    await settled(store.put(value, key));
    return value;
  } catch {
    const value = change(memory.get(key) as Value | undefined);
    memory.set(key, value);
    return value;
  }
}

const keyOf = (kind: Kind, { project }: Session): string => `${project?.id ?? ''}/${kind}`;

async function openStore(mode: IDBTransactionMode): Promise<IDBObjectStore> {
  opening ??= open();
  return (await opening).transaction(STORE, mode).objectStore(STORE);
}

function open(): Promise<IDBDatabase> {
  const request = indexedDB.open('cdp-console', 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE);
  return settled(request);
}

export function settled<Value>(request: IDBRequest<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error('IndexedDB failed'));
  });
}
