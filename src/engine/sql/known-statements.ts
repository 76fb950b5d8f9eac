/**
 * What is remembered of statements that came lately, so that they can go out in one write the next time
 * (docs/decisions/0023-one-write.md). Nothing here has to be true any more: whoever uses it looks at what Postgres says
 * this time. Bounded for each project, and over all.
 */
import { LruMap } from 'toad-cache';
import type { ResultColumn } from '../../postgres/results/columns.js';
import { jsonRowEncoder, type RowEncoder, type RowMode } from '../../postgres/results/rows.js';
import { resultFormat } from '../../postgres/results/types.js';
import { readRowDescription } from '../../postgres/wire/messages.js';
import type { Described } from '../../postgres/wire/session.js';
import { bound } from '../../postgres/wire/whole-request.js';
import { callerSql } from '../../postgres/sql.js';

/** Projects of which anything is kept. */
const PROJECTS = 1_000;

/** Estimated bytes that are kept of one project, and of one statement. */
const PROJECT_BYTES = 16 * 1024;
const STATEMENT_BYTES = 8 * 1024;

/** Estimates: of an entry without text and columns, and of a column with its name, its type and its encoder. */
const ENTRY_BYTES = 400;
const COLUMN_BYTES = 250;

export class KnownStatement {
  readonly formats: readonly number[];
  /** Rows as JSON that the last answer had, in bytes. */
  answerBytes = 0;
  private withoutParams: Buffer | null = null;
  private readonly encoders: Partial<Record<RowMode, RowEncoder>> = {};
  /** The body of the RowDescription that was last found to say the same. */
  private confirmed: Buffer | null = null;

  constructor(
    private readonly text: string,
    readonly parameterOids: readonly number[],
    /** null where the statement returns no rows. */
    readonly columns: readonly ResultColumn[] | null,
    /** Names and types, as they stand in the answer. */
    readonly columnsJson: string,
  ) {
    this.formats = (columns ?? []).map(({ typeOid }) => resultFormat(typeOid));
  }

  /** The messages of the statement with these values. */
  bound(params: readonly (string | null)[]): Buffer {
    const { text } = callerSql(this.text);
    return params.length > 0
      ? bound(text, params, this.formats)
      : (this.withoutParams ??= bound(text, [], this.formats));
  }

  encoder(mode: RowMode): RowEncoder {
    return (this.encoders[mode] ??= jsonRowEncoder(this.columns ?? [], mode));
  }

  /** @returns the columns that a RowDescription tells; the same object where they are those of before */
  columnsNow(buffer: Buffer, start: number, end: number): readonly ResultColumn[] {
    const { confirmed, columns } = this;
    if (columns !== null && confirmed?.compare(buffer, start, end) === 0) return columns;
    const found = readRowDescription(buffer, start);
    if (columns === null || !areEqual(found, columns)) return found;
    this.confirmed = Buffer.from(buffer.subarray(start, end));
    return columns;
  }
}

const areEqual = (some: readonly ResultColumn[], others: readonly ResultColumn[]): boolean =>
  some.length === others.length &&
  some.every(({ name, typeOid, typeModifier }, i) => {
    const other = others[i];
    return name === other?.name && typeOid === other.typeOid && typeModifier === other.typeModifier;
  });

/** The statements of one project. */
export class ProjectStatements {
  /** By lane and text, the least recently used first; null: its answers may be large. */
  private readonly writers = new Map<string, KnownStatement | null>();
  private readonly readers = new Map<string, KnownStatement | null>();
  private bytes = 0;

  /** @returns undefined where the statement is not known or should not go out in one write */
  get(readOnly: boolean, text: string): KnownStatement | undefined {
    const lane = this.lane(readOnly);
    const known = lane.get(text);
    if (known === undefined || known === null) return undefined;
    lane.delete(text);
    lane.set(text, known);
    return known;
  }

  /** @returns undefined where it is not kept: it is too long, or its answers have been large */
  remember(
    readOnly: boolean,
    text: string,
    { parameterOids, columns }: Described,
    columnsJson: string,
  ): KnownStatement | undefined {
    const lane = this.lane(readOnly);
    const size = sizeOf(text, columns?.length ?? 0);
    if (size > STATEMENT_BYTES || lane.get(text) === null) return undefined;
    this.forget(readOnly, text);
    const known = new KnownStatement(text, parameterOids, columns, columnsJson);
    lane.set(text, known);
    this.bytes += size;
    this.makeRoom(lane);
    return known;
  }

  /** Answers of this statement have become large: it is not sent in one write any more. */
  markLarge(readOnly: boolean, text: string): void {
    this.forget(readOnly, text);
    this.lane(readOnly).set(text, null);
    this.bytes += sizeOf(text, 0);
  }

  forget(readOnly: boolean, text: string): void {
    const lane = this.lane(readOnly);
    const known = lane.get(text);
    if (known === undefined) return;
    lane.delete(text);
    this.bytes -= sizeOf(text, known?.columns?.length ?? 0);
  }

  private lane(readOnly: boolean): Map<string, KnownStatement | null> {
    return readOnly ? this.readers : this.writers;
  }

  /** Takes from the lane that has just grown first. */
  private makeRoom(grown: ReadonlyMap<string, unknown>): void {
    const isReader = grown === this.readers;
    for (const readOnly of [isReader, !isReader]) {
      for (const text of this.lane(readOnly).keys()) {
        if (this.bytes <= PROJECT_BYTES) return;
        this.forget(readOnly, text);
      }
    }
  }
}

const sizeOf = (text: string, columns: number): number => ENTRY_BYTES + 2 * text.length + columns * COLUMN_BYTES;

export class KnownStatements {
  private readonly projects = new LruMap<ProjectStatements>(PROJECTS);

  of(project: string): ProjectStatements {
    const found = this.projects.get(project);
    if (found !== undefined) return found;
    const statements = new ProjectStatements();
    this.projects.set(project, statements);
    return statements;
  }
}
