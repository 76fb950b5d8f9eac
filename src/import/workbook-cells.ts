/**
 * What the reader of workbooks leaves out: the kinds of sheets, and the cells of a sheet that need more than their
 * value, because it forgets the format of a duration and does not tell a formula without a value from an empty cell.
 */
export interface Sheet {
  readonly name: string;
  /** Undefined for a sheet without cells, such as a chart. */
  readonly path: string | undefined;
}

export interface WorkbookParts {
  readonly sheets: readonly Sheet[];
  /** Whether day 0 is January 1, 1904. */
  readonly is1904: boolean;
  cellsOf(sheet: Sheet): Promise<SheetCells>;
}

export interface SheetCells {
  /** Durations in days, by {@link cellKey}. */
  readonly durations: ReadonlyMap<number, number>;
  /** The number of formulas that no program has calculated. */
  readonly formulasWithoutValue: number;
}

const COLUMNS = 16_384;

/** @param row 0-based @param column 0-based */
export const cellKey = (row: number, column: number): number => row * COLUMNS + column;

/** @throws Error if it is not a workbook */
export async function partsOf(file: Uint8Array): Promise<WorkbookParts> {
  const zip = new Zip(file);
  const root = await zip.text('_rels/.rels');
  const path = relationsOf(root, '').find(({ type }) => type.endsWith('/officeDocument'))?.target ?? 'xl/workbook.xml';
  const workbook = await zip.text(path);
  const folder = path.slice(0, path.lastIndexOf('/') + 1);
  const relations = relationsOf(await zip.text(`${folder}_rels/${path.slice(folder.length)}.rels`), folder);
  const sheets = elementsOf(workbook, 'sheet').map(({ name = '', ...others }): Sheet => {
    const id = Object.entries(others).find(([key]) => key.endsWith(':id'))?.[1];
    const relation = relations.find((each) => each.id === id && each.type.endsWith('/worksheet'));
    return { name, path: relation?.target };
  });
  const styles = relations.find(({ type }) => type.endsWith('/styles'))?.target;
  const [properties] = elementsOf(workbook, 'workbookPr');
  return {
    sheets,
    is1904: /^(?:1|true)$/.test(properties?.date1904 ?? ''),
    cellsOf: async (sheet) => {
      const durationStyles = styles === undefined ? new Set<number>() : durationStylesOf(await zip.text(styles));
      return scannedCells(sheet.path === undefined ? [] : zip.pieces(sheet.path), durationStyles);
    },
  };
}

const CELL = /<(?:\w+:)?(row|c)\b([^>]*?)(?:\/>|>)/g;
const END_OF_CELL = /<\/(?:\w+:)?c>/g;
/** With any namespace. */
const END_OF_ROW = 'row>';
const VALUE = /<(?:\w+:)?v\b[^>]*>([^<]+)</;
const FORMULA = /<(?:\w+:)?f\b/;

async function scannedCells(
  pieces: AsyncIterable<string> | Iterable<string>,
  durationStyles: ReadonlySet<number>,
): Promise<SheetCells> {
  const durations = new Map<number, number>();
  let formulasWithoutValue = 0;
  let [row, column] = [-1, -1];
  const add = (xml: string): void => {
    if (durationStyles.size === 0 && !FORMULA.test(xml)) return;
    CELL.lastIndex = 0;
    for (let match = CELL.exec(xml); match !== null; match = CELL.exec(xml)) addCell(match, xml);
  };
  const addCell = (match: RegExpExecArray, xml: string): void => {
    const { r: place, t: type, s: style = '0' } = attributesOf(match[2] ?? '');
    if (match[1] === 'row') {
      [row, column] = [place === undefined ? row + 1 : Number(place) - 1, -1];
      return;
    }
    column = place === undefined ? column + 1 : columnOf(place);
    if (match[0].endsWith('/>')) return;
    END_OF_CELL.lastIndex = CELL.lastIndex;
    const end = END_OF_CELL.exec(xml)?.index ?? xml.length;
    const content = xml.slice(CELL.lastIndex, end);
    CELL.lastIndex = end;
    const value = VALUE.exec(content)?.[1];
    // A formula whose value is the empty text has the type `str`.
    if (value === undefined && type !== 'str' && FORMULA.test(content)) formulasWithoutValue++;
    const isNumber = type === undefined || type === 'n';
    if (value !== undefined && isNumber && durationStyles.has(Number(style)) && Number.isFinite(Number(value)))
      durations.set(cellKey(row, column), Number(value));
  };
  let rest = '';
  for await (const piece of pieces) {
    const end = piece.lastIndexOf(END_OF_ROW);
    if (end === -1) {
      rest += piece;
      continue;
    }
    add(rest + piece.slice(0, end + END_OF_ROW.length));
    rest = piece.slice(end + END_OF_ROW.length);
  }
  add(rest);
  return { durations, formulasWithoutValue };
}

/** @param place such as `AB12` */
function columnOf(place: string): number {
  let column = 0;
  for (const letter of /^[A-Z]*/i.exec(place)?.[0].toUpperCase() ?? '')
    column = column * 26 + letter.charCodeAt(0) - 64;
  return column - 1;
}

/** The built-in format `[h]:mm:ss`. */
const BUILT_IN_DURATION = '46';

/** The indexes of the cell styles whose format counts hours beyond a day, or minutes or seconds beyond an hour. */
function durationStylesOf(styles: string): Set<number> {
  const formats = new Set([BUILT_IN_DURATION]);
  for (const { numFmtId = '', formatCode = '' } of elementsOf(within(styles, 'numFmts'), 'numFmt'))
    if (/\[(?:h+|m+|s+)\]/i.test(formatCode.replace(/"[^"]*"|\\./g, ''))) formats.add(numFmtId);
  return new Set(
    elementsOf(within(styles, 'cellXfs'), 'xf').flatMap(({ numFmtId = '' }, i) => (formats.has(numFmtId) ? [i] : [])),
  );
}

const within = (xml: string, name: string): string =>
  new RegExp(`<(?:\\w+:)?${name}\\b[^>]*>([\\s\\S]*?)</(?:\\w+:)?${name}>`).exec(xml)?.[1] ?? '';

const relationsOf = (xml: string, folder: string) =>
  elementsOf(xml, 'Relationship').map(({ Id: id, Type: type = '', Target: target = '' }) => {
    return { id, type, target: target.startsWith('/') ? target.slice(1) : joined(folder, target) };
  });

/** @param folder ends with a slash, or is empty */
function joined(folder: string, target: string): string {
  const parts: string[] = [];
  for (const part of `${folder}${target}`.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '.' && part !== '') parts.push(part);
  }
  return parts.join('/');
}

type Attributes = Readonly<Record<string, string | undefined>>;

const elementsOf = (xml: string, name: string): Attributes[] =>
  [...xml.matchAll(new RegExp(`<(?:\\w+:)?${name}\\b((?:[^>"']|"[^"]*"|'[^']*')*)>`, 'g'))].map(([, attributes = '']) =>
    attributesOf(attributes),
  );

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

function attributesOf(text: string): Attributes {
  const attributes: Record<string, string> = {};
  for (const [, name = '', double, single = ''] of text.matchAll(/([\w:]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
    attributes[name] = (double ?? single).replace(/&(?:#(x?)([\da-f]+)|(\w+));/gi, (whole, hex, code, entity) =>
      typeof code === 'string'
        ? String.fromCodePoint(Number.parseInt(code, hex === '' ? 10 : 16))
        : (ENTITIES[String(entity)] ?? String(whole)),
    );
  }
  return attributes;
}

const SIGNATURES = { end: 0x06054b50, entry: 0x02014b50 };
/** The longest comment after the end of a ZIP archive, and its record. */
const END_BYTES = 65_535 + 22;
const STORED = 0;
const DEFLATED = 8;

/** The parts of a ZIP archive in memory, found by its directory. */
class Zip {
  private readonly entries = new Map<string, { method: number; size: number; at: number }>();
  private readonly view: DataView;

  /** @throws Error if it is not a ZIP archive */
  constructor(private readonly file: Uint8Array) {
    this.view = new DataView(file.buffer, file.byteOffset, file.byteLength);
    let end = file.length - 22;
    while (end >= Math.max(0, file.length - END_BYTES) && this.uint32(end) !== SIGNATURES.end) end--;
    if (end < 0 || this.uint32(end) !== SIGNATURES.end) throw new Error('it is not a ZIP archive');
    const decoder = new TextDecoder();
    let at = this.uint32(end + 16);
    for (let count = this.uint16(end + 10); count > 0 && this.uint32(at) === SIGNATURES.entry; count--) {
      const name = this.uint16(at + 28);
      this.entries.set(decoder.decode(file.subarray(at + 46, at + 46 + name)), {
        method: this.uint16(at + 10),
        size: this.uint32(at + 20),
        at: this.uint32(at + 42),
      });
      // The name, the extra field and the comment.
      at += 46 + name + this.uint16(at + 30) + this.uint16(at + 32);
    }
  }

  /** @throws Error if there is no such part */
  async text(path: string): Promise<string> {
    let text = '';
    for await (const piece of this.pieces(path)) text += piece;
    return text;
  }

  /** @throws Error if there is no such part */
  async *pieces(path: string): AsyncGenerator<string, void> {
    const entry = this.entries.get(path);
    if (entry === undefined) throw new Error(`it has no part ${path}`);
    const start = entry.at + 30 + this.uint16(entry.at + 26) + this.uint16(entry.at + 28);
    const bytes = this.file.subarray(start, start + entry.size);
    if (entry.method !== STORED && entry.method !== DEFLATED)
      throw new Error(`${path} is compressed in an unknown way`);
    const decoder = new TextDecoder();
    for await (const chunk of entry.method === STORED ? [bytes] : inflated(bytes))
      yield decoder.decode(chunk, { stream: true });
    yield decoder.decode();
  }

  private uint16 = (at: number): number => this.view.getUint16(at, true);
  private uint32 = (at: number): number => this.view.getUint32(at, true);
}

/** @throws Error if it is not deflated */
async function* inflated(packed: Uint8Array): AsyncGenerator<Uint8Array, void> {
  const { readable, writable } = new DecompressionStream('deflate-raw');
  const writer = writable.getWriter();
  const written = writer.write(packed as Uint8Array<ArrayBuffer>).then(() => writer.close());
  // The reader gets the error.
  written.catch(() => {});
  const reader = readable.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value as Uint8Array;
  } finally {
    // What is left is not needed.
    await reader.cancel().catch(() => {});
  }
}
