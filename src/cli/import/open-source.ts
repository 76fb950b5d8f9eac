/** Opens a file in its format. The readers of Parquet and workbooks are loaded on demand. */
import { open } from 'node:fs/promises';
import { UsageError } from '../exit.js';
import type { FileFormat } from '../../import/format.js';
import { type ImportFile, openText, type ReadOptions, type Source } from '../../import/source.js';
import { identityOf, labelOf, openInput, sizeOf } from './open-input.js';

export const importFile = (path: string): ImportFile => ({
  path,
  identity: () => identityOf(path),
  open: (options) => openSource(path, options),
});

/** @throws FileError if the file cannot be read in its format */
export async function openSource(path: string, options: ReadOptions): Promise<Source> {
  const size = await sizeOf(path);
  const format =
    options.format ?? (size === null ? undefined : await binaryFormatOf(path, options.sheet !== undefined));
  if (options.sheet !== undefined && format !== 'xlsx')
    throw new UsageError(`${labelOf(path)} is not an Excel workbook; --sheet is for those`);
  if (format === 'parquet') return (await import('./parquet.js')).openParquet(path, size, options);
  if (format === 'xlsx') return (await import('./xlsx.js')).openWorkbook(path, size, options);
  return openText(await openInput(path, options.encoding), options);
}

/**
 * Detects the format by the first bytes. Many kinds of files besides workbooks are ZIP archives.
 * @param hasSheets whether the options say that it is a workbook, whatever its name
 */
async function binaryFormatOf(path: string, hasSheets: boolean): Promise<FileFormat | undefined> {
  const handle = await open(path);
  try {
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(4), position: 0 });
    const magic = buffer.toString('latin1', 0, bytesRead);
    if (magic === 'PAR1') return 'parquet';
    return magic === 'PK\x03\x04' && (hasSheets || /\.xls[xm]$/i.test(path)) ? 'xlsx' : undefined;
  } finally {
    await handle.close();
  }
}
