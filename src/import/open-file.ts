/** Opens a file in its format. The readers of Parquet and workbooks are loaded on demand. */
import { FileError } from './file-error.js';
import type { FileFormat } from './format.js';
import type { RandomAccess, TextInput } from './input.js';
import { openText, type FileReadOptions, type Source } from './source.js';

/**
 * @param text opens the same file as text
 * @throws FileError if the file cannot be read in its format
 */
export async function openFile(
  file: RandomAccess,
  text: () => TextInput | Promise<TextInput>,
  options: FileReadOptions,
): Promise<Source> {
  const format = options.format ?? (await binaryFormatOf(file, options.sheet !== undefined));
  if (options.sheet !== undefined && format !== 'xlsx')
    throw new FileError(`${file.label} is not an Excel workbook; --sheet is for those`);
  if (format === 'parquet') return (await import('./parquet.js')).openParquet(file, options);
  if (format === 'xlsx') return (await import('./xlsx.js')).openWorkbook(file, options);
  return openText(await text(), options);
}

/**
 * Detects the format by the first bytes. Many kinds of files besides workbooks are ZIP archives.
 * @param hasSheets whether the options say that it is a workbook, whatever its name
 */
async function binaryFormatOf(file: RandomAccess, hasSheets: boolean): Promise<FileFormat | undefined> {
  if (file.size === null) return undefined;
  const magic = new TextDecoder('latin1').decode(await file.slice(0, Math.min(4, file.size)));
  if (magic === 'PAR1') return 'parquet';
  return magic === 'PK\x03\x04' && (hasSheets || /\.xls[xm]$/i.test(file.path)) ? 'xlsx' : undefined;
}
