/**
 * Reads the table of contents of an archive in pg_dump's custom format (Postgres's `pg_backup_archiver.c`, `ReadHead`
 * and `ReadToc`). The list that `pg_restore --list` prints is for people: it separates fields by spaces, which may also
 * be in names, and replaces line breaks.
 */
import { BadBackup } from '../tar.js';

export interface TocEntry {
  /** By which pg_restore's `--use-list` chooses it. */
  readonly id: number;
  /** In capitals, such as `TABLE` or `ACL`. */
  readonly kind: string;
  /** null: in no schema. */
  readonly schema: string | null;
  /** For `ACL` and `COMMENT`, the kind and the quoted name of what they are about, such as `SCHEMA "a b"`. */
  readonly name: string;
  /** Empty: none. */
  readonly owner: string;
}

export interface DumpToc {
  /** The versions of the server and of pg_dump, such as `15.18 (Debian 15.18-1)`. */
  readonly server: string;
  readonly program: string;
  readonly entries: TocEntry[];
}

/** The versions of the format that pg_dump 15 to 18 write: 1.14 to 1.16. */
const [OLDEST, WITH_ALGORITHM, WITH_RELKIND] = [14, 15, 16];

const CUSTOM = 1;

/**
 * @param parts the archive; read as far as its contents go
 * @throws BadBackup if it is none, is cut off, or has a format that pg_dump 15 to 18 do not write
 */
export async function readToc(parts: AsyncIterable<Buffer>): Promise<DumpToc> {
  const iterator = parts[Symbol.asyncIterator]();
  try {
    return await new ContentsReader(iterator).read();
  } finally {
    await iterator.return?.();
  }
}

class ContentsReader {
  private buffer: Buffer = Buffer.alloc(0);
  private at = 0;
  private minor = 0;
  private intBytes = 0;

  constructor(private readonly parts: AsyncIterator<Buffer>) {}

  async read(): Promise<DumpToc> {
    if ((await this.take(5)).toString('latin1') !== 'PGDMP')
      throw new BadBackup('Its dump is not an archive of pg_dump');
    const [major, minor = 0] = await this.take(3);
    if (major !== 1 || minor < OLDEST || minor > WITH_RELKIND) {
      throw new BadBackup(`Its dump has the format ${major}.${minor}, which pg_dump 15 to 18 do not write`);
    }
    this.minor = minor;
    const [intBytes = 0, offsetBytes = 0, format] = await this.take(3);
    if (format !== CUSTOM) throw new BadBackup('Its dump is not in the custom format of pg_dump');
    this.intBytes = intBytes;
    if (minor >= WITH_ALGORITHM) await this.take(1);
    else await this.int();
    // The time of the dump, from seconds to daylight saving.
    for (let i = 0; i < 7; i++) await this.int();
    await this.text();
    const [server, program] = [(await this.text()) ?? '', (await this.text()) ?? ''];
    const entries: TocEntry[] = [];
    for (let left = await this.int(); left > 0; left--) entries.push(await this.entry(offsetBytes));
    return { server, program, entries };
  }

  private async entry(offsetBytes: number): Promise<TocEntry> {
    const id = await this.int();
    await this.int(); // whether it has data
    await this.texts(2); // oids of its catalog and of itself
    const name = (await this.text()) ?? '';
    const kind = (await this.text()) ?? '';
    await this.int(); // section
    await this.texts(3); // statements that create, drop and fill it
    const schema = await this.text();
    await this.texts(2); // tablespace, access method
    if (this.minor >= WITH_RELKIND) await this.int();
    const owner = (await this.text()) ?? '';
    await this.text(); // formerly: with oids
    for (let dependency: string | null = ''; dependency !== null;) dependency = await this.text();
    await this.take(1 + offsetBytes); // the place of its data
    return { id, kind, schema: schema === '' ? null : schema, name, owner };
  }

  private async texts(count: number): Promise<void> {
    for (let i = 0; i < count; i++) await this.text();
  }

  /** null: there is none */
  private async text(): Promise<string | null> {
    const length = await this.int();
    return length < 0 ? null : (await this.take(length)).toString();
  }

  /** A sign, then bytes from the lowest. */
  private async int(): Promise<number> {
    const [isNegative, ...bytes] = await this.take(1 + this.intBytes);
    const value = bytes.reduceRight((sum, byte) => sum * 256 + byte, 0);
    return isNegative ? -value : value;
  }

  private async take(size: number): Promise<Buffer> {
    if (this.buffer.length - this.at < size) await this.more(size);
    return this.buffer.subarray(this.at, (this.at += size));
  }

  private async more(size: number): Promise<void> {
    const chunks = [this.buffer.subarray(this.at)];
    for (let length = chunks[0]?.length ?? 0; length < size;) {
      const next = await this.parts.next();
      if (next.done) throw new BadBackup('Its dump is cut off');
      chunks.push(next.value);
      length += next.value.length;
    }
    this.buffer = Buffer.concat(chunks);
    this.at = 0;
  }
}
