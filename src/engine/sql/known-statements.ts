/**
 * What is remembered of statements that came lately, so that they can go out in one write the next time
 * (docs/decisions/0024-one-write.md). Nothing here has to be true any more: whoever uses it looks at what Postgres says
 * this time. Bounded for each project, and over all.
 */
import { LruMap } from 'toad-cache';
import type { ResultColumn } from '../../postgres/results/columns.js';
import type { RowEncoder } from '../../postgres/results/row-encoder.js';
import { jsonRowEncoder, type RowMode } from '../../postgres/results/rows.js';
import { resultFormat } from '../../postgres/results/types.js';
import { TEXT_FORMAT } from '../../postgres/results/value.js';
import { parse, readRowDescription } from '../../postgres/wire/messages.js';
import type { Described } from '../../postgres/wire/session.js';
import { bound, type WholeStatement } from '../../postgres/wire/one-write.js';
import { callerSql } from '../../postgres/sql.js';
import { isConstantQuery, isTimeless } from './constant-query.js';

/**
 * Estimated bytes that are kept: of all projects, the one that was idle for longest goes first; of one project, the
 * statement; and of one statement.
 */
const ALL_BYTES = 16 * 1024 * 1024;
const PROJECT_BYTES = 256 * 1024;
const STATEMENT_BYTES = 16 * 1024;

/** Estimates: of an entry without text and columns, and of a column with its name and its type, each in several forms. */
const ENTRY_BYTES = 700;
const COLUMN_BYTES = 300;

/** Encoders of the statements that ran last, over all projects: they take more memory than all else. */
const encoders = new LruMap<Partial<Record<RowMode, RowEncoder>>>(200);

/** Keeps its bytes as Latin-1: a small Buffer would keep the whole piece of memory that it was cut from. */
export class KnownStatement implements WholeStatement {
  readonly parse: string;
  readonly formats: readonly number[];
  /** See {@link isConstantQuery}. */
  readonly isConstant: boolean;
  readonly staysParsed: boolean;
  /** Rows as JSON that the last answer had, in bytes. */
  answerBytes = 0;
  private withoutParams: string | null = null;
  /** The body of the RowDescription that was last found to say the same. */
  private confirmed: string | null = null;

  constructor(
    readonly text: string,
    readonly parameterOids: readonly number[],
    /** null where the statement returns no rows. */
    readonly columns: readonly ResultColumn[] | null,
    /** Names and types, as they stand in the answer. */
    readonly columnsJson: string,
  ) {
    this.parse = parse(callerSql(text).text).toString('latin1');
    this.isConstant = isConstantQuery(text);
    this.staysParsed = this.isConstant && isTimeless(text);
    this.formats = (columns ?? []).map(({ typeOid }) => resultFormat(typeOid));
  }

  /** The messages that go with these values, as bytes or Latin-1. */
  bound(params: readonly (string | null)[]): Buffer | string {
    return params.length > 0 ? bound(params, this.formats) : this.unbound;
  }

  /** The same without values, as Latin-1. */
  get unbound(): string {
    return (this.withoutParams ??= bound([], this.formats).toString('latin1'));
  }

  /** In which format the rows have this column, by those that were asked for: one alone holds for all columns (manual 54.7, Bind). */
  formatOf(column: number): number {
    return this.formats[this.formats.length === 1 ? 0 : column] ?? TEXT_FORMAT;
  }

  encoder(mode: RowMode): RowEncoder {
    const found = encoders.get(this);
    const own = found ?? {};
    if (found === undefined) encoders.set(this, own);
    return (own[mode] ??= jsonRowEncoder(this.columns ?? [], mode, 'list'));
  }

  /** @returns the columns that a RowDescription tells; the same object where they are those of before */
  columnsNow(buffer: Buffer, start: number, end: number): readonly ResultColumn[] {
    const { columns } = this;
    const description = buffer.toString('latin1', start, end);
    if (columns !== null && description === this.confirmed) return columns;
    const found = readRowDescription(buffer, start, end);
    if (columns === null || !areEqual(found, columns)) return found;
    this.confirmed = description;
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
  private kept = 0;
  /** The one that was used last: it need not be put there again. */
  private latest: KnownStatement | null = null;

  /** @param onChange told of every change of {@link bytes} */
  constructor(private readonly onChange: (bytes: number) => void) {}

  /** Estimated. */
  get bytes(): number {
    return this.kept;
  }

  /** @returns undefined where the statement is not known or should not go out in one write */
  get(readOnly: boolean, text: string): KnownStatement | undefined {
    const lane = this.lane(readOnly);
    const known = lane.get(text);
    if (known === undefined || known === null) return undefined;
    if (known === this.latest) return known;
    this.latest = known;
    lane.delete(text);
    // By the text that is kept: this one may be a part of a body that is many times as long.
    lane.set(known.text, known);
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
    if (!isKept(text, columns) || lane.get(text) === null) return undefined;
    this.forget(readOnly, text);
    const known = new KnownStatement(copyOf(text), parameterOids, columns, columnsJson);
    lane.set(known.text, known);
    this.latest = known;
    this.count(sizeOf(text, columns?.length ?? 0));
    this.makeRoom(lane);
    return known;
  }

  /** Answers of this statement have become large: it is not sent in one write any more. */
  markLarge(readOnly: boolean, text: string): void {
    this.forget(readOnly, text);
    this.lane(readOnly).set(copyOf(text), null);
    this.count(sizeOf(text, 0));
  }

  forget(readOnly: boolean, text: string): void {
    const lane = this.lane(readOnly);
    const known = lane.get(text);
    if (known === undefined) return;
    lane.delete(text);
    this.count(-sizeOf(text, known?.columns?.length ?? 0));
  }

  private count(change: number): void {
    this.kept += change;
    this.onChange(change);
  }

  private lane(readOnly: boolean): Map<string, KnownStatement | null> {
    return readOnly ? this.readers : this.writers;
  }

  /** Takes from the lane that has just grown first. */
  private makeRoom(grown: ReadonlyMap<string, unknown>): void {
    const isReader = grown === this.readers;
    for (const readOnly of [isReader, !isReader]) {
      for (const text of this.lane(readOnly).keys()) {
        if (this.kept <= PROJECT_BYTES) return;
        this.forget(readOnly, text);
      }
    }
  }
}

/** V8 keeps the whole of a string as long as a part of it lives. */
const copyOf = (text: string): string => Buffer.from(text).toString();

const sizeOf = (text: string, columns: number): number => ENTRY_BYTES + 3 * text.length + columns * COLUMN_BYTES;

/** Whether a statement is short enough to be kept. */
export const isKept = (text: string, columns: readonly unknown[] | null): boolean =>
  sizeOf(text, columns?.length ?? 0) <= STATEMENT_BYTES;

export class KnownStatements {
  /** The least recently used first. */
  private readonly projects = new Map<string, ProjectStatements>();
  /** The last of them: one that is used again need not be put there again. */
  private latest: { readonly project: string; readonly statements: ProjectStatements } | null = null;
  private bytes = 0;

  of(project: string): ProjectStatements {
    const { latest } = this;
    if (latest?.project === project) return latest.statements;
    const statements = this.projects.get(project) ?? new ProjectStatements((change) => this.count(change));
    this.projects.delete(project);
    this.projects.set(project, statements);
    this.latest = { project, statements };
    return statements;
  }

  private count(change: number): void {
    this.bytes += change;
    for (const [project, { bytes }] of this.projects) {
      if (this.bytes <= ALL_BYTES) return;
      this.projects.delete(project);
      if (this.latest?.project === project) this.latest = null;
      this.bytes -= bytes;
    }
  }
}
