/**
 * Downloads all rows of a statement: runs it again, as the reader if the token may, and writes the stream to a file as it
 * arrives.
 */
import { currentSession, hasScope } from '../session.js';
import type { RunRequest } from '../sql/run.js';

export type DownloadFormat = 'csv' | 'ndjson' | 'parquet';

const TYPES: Readonly<Record<DownloadFormat, string>> = {
  csv: 'text/csv',
  ndjson: 'application/x-ndjson',
  parquet: 'application/vnd.apache.parquet',
};

interface SaveFilePicker {
  showSaveFilePicker?: (options: { suggestedName: string }) => Promise<FileSystemFileHandle>;
}

/**
 * Writes directly to the disk if the browser supports it (Chromium over HTTPS or on localhost). Otherwise collects the
 * file in a blob first, in the browser's own storage.
 * @param progress called with the bytes so far
 * @throws CdpError; FileError if a Parquet file cannot hold a value; an AbortError if the user does not choose a file
 */
export async function download(
  { text, params }: RunRequest,
  format: DownloadFormat,
  name: string,
  signal: AbortSignal,
  progress: (bytes: number) => void,
): Promise<void> {
  const { client } = currentSession();
  const options = { read_only: hasScope('sql:read'), timeout_ms: 60_000, signal };
  const { parquetRows } = format === 'parquet' ? await import('../../../src/export/parquet-file.js') : {};
  const open = (): AsyncIterable<Uint8Array> => {
    if (parquetRows !== undefined) return parquetRows(client, text, params, options, () => {});
    if (format === 'csv') return client.sqlCsv(text, params, options);
    return encoded(client.sqlLines(text, params, { ...options, numbers: 'raw' }));
  };
  await saveFile(open, format, name, progress);
}

/**
 * @param open is called once the user has chosen a file, where the browser asks for one
 * @throws what `open` does, and nothing is saved; an AbortError if the user does not choose a file
 */
export async function saveFile(
  open: () => AsyncIterable<Uint8Array>,
  format: DownloadFormat,
  name: string,
  progress: (bytes: number) => void = () => {},
): Promise<void> {
  const fileName = `${name}.${format}`;
  const { showSaveFilePicker } = globalThis as SaveFilePicker;
  if (showSaveFilePicker === undefined) {
    offerFile(await collect(counted(open(), progress), format), fileName);
    return;
  }
  const file = await showSaveFilePicker.call(globalThis, { suggestedName: fileName });
  const writable = await file.createWritable();
  try {
    for await (const bytes of counted(open(), progress)) await writable.write(bytes as Uint8Array<ArrayBuffer>);
    await writable.close();
  } catch (error) {
    await writable.abort();
    throw error;
  }
}

async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  progress: (bytes: number) => void,
): AsyncGenerator<Uint8Array, void> {
  let bytes = 0;
  for await (const chunk of chunks) {
    yield chunk;
    progress((bytes += chunk.byteLength));
  }
}

const LINES_AT_ONCE = 2_000;

export async function* encoded(lines: AsyncIterable<string>): AsyncGenerator<Uint8Array, void> {
  const encoder = new TextEncoder();
  let waiting: string[] = [];
  for await (const line of lines) {
    if (waiting.push(line) < LINES_AT_ONCE) continue;
    yield encoder.encode(`${waiting.join('\n')}\n`);
    waiting = [];
  }
  if (waiting.length > 0) yield encoder.encode(`${waiting.join('\n')}\n`);
}

const PART_BYTES = 8 * 1024 * 1024;

/** Blobs of blobs: browsers move large ones to disk. */
async function collect(chunks: AsyncIterable<Uint8Array>, format: DownloadFormat): Promise<Blob> {
  const parts: Blob[] = [];
  let waiting: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    waiting.push(chunk as Uint8Array<ArrayBuffer>);
    bytes += chunk.byteLength;
    if (bytes < PART_BYTES) continue;
    parts.push(new Blob(waiting));
    waiting = [];
    bytes = 0;
  }
  return new Blob([...parts, ...waiting], { type: TYPES[format] });
}

/** Offers a file to the user as a download. */
export function offerFile(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
