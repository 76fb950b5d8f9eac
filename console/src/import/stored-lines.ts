/** Journals of imports in IndexedDB: a header for each, and its lines in order. */
import { settled } from '../kept.js';

const HEADERS = 'headers';
const LINES = 'lines';
let opening: Promise<IDBDatabase> | undefined;

/** @throws DOMException if this browser stores nothing, as in some private windows */
function opened(): Promise<IDBDatabase> {
  opening ??= open();
  return opening;
}

function open(): Promise<IDBDatabase> {
  const request = indexedDB.open('cdp-console-imports', 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore(HEADERS, { keyPath: 'id' });
    request.result.createObjectStore(LINES);
  };
  return settled(request);
}

const linesOf = (id: string): IDBKeyRange => IDBKeyRange.bound([id], [id, []]);

export async function addHeader(header: { readonly id: string }): Promise<void> {
  const store = (await opened()).transaction(HEADERS, 'readwrite').objectStore(HEADERS);
  await settled(store.add(header));
}

export async function allHeaders<Header>(): Promise<Header[]> {
  try {
    return (await settled((await opened()).transaction(HEADERS).objectStore(HEADERS).getAll())) as Header[];
  } catch {
    return [];
  }
}

export async function readLines<Line>(id: string): Promise<Line[]> {
  return (await settled((await opened()).transaction(LINES).objectStore(LINES).getAll(linesOf(id)))) as Line[];
}

/** @throws DOMException if a line with this number exists: another tab is writing the same journal */
export async function addLine(id: string, number: number, line: object): Promise<void> {
  const transaction = (await opened()).transaction(LINES, 'readwrite');
  const written = new Promise<void>((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new Error('IndexedDB failed'));
  });
  transaction.objectStore(LINES).add(line, [id, number]);
  await written;
}

export async function removeLines(id: string): Promise<void> {
  const transaction = (await opened()).transaction([HEADERS, LINES], 'readwrite');
  transaction.objectStore(HEADERS).delete(id);
  await settled(transaction.objectStore(LINES).delete(linesOf(id)));
}
