/** Opens a file of this machine in its format. */
import { open } from 'node:fs/promises';
import type { RandomAccess } from '../../import/input.js';
import { openFile } from '../../import/open-file.js';
import type { ImportFile, FileReadOptions, Source } from '../../import/source.js';
import { identityOf, labelOf, openInput, sizeOf } from './open-input.js';

export const importFile = (path: string): ImportFile => ({
  path,
  identity: () => identityOf(path),
  open: (options) => openSource(path, options),
});

/** @throws FileError if the file cannot be read in its format */
export async function openSource(path: string, options: FileReadOptions): Promise<Source> {
  return openFile(await fileAt(path), () => openInput(path, options.encoding), options);
}

/** @throws UsageError if there is no such file */
async function fileAt(path: string): Promise<RandomAccess> {
  const size = await sizeOf(path);
  return {
    path,
    label: labelOf(path),
    size,
    slice: async (start, end = size ?? 0) => {
      const handle = await open(path);
      try {
        const bytes = new Uint8Array(end - start);
        const { bytesRead } = await handle.read(bytes, 0, bytes.length, start);
        return bytes.buffer.slice(0, bytesRead);
      } finally {
        await handle.close();
      }
    },
  };
}
