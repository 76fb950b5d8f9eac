/**
 * Applies the changes of the source to the target. Within a batch, the changes of one table keep their order; tables
 * need not wait for each other, because no trigger runs and no foreign key is checked (`stream.ts`).
 */
import {
  BEGIN,
  type Change,
  COMMIT,
  copyLine,
  ident,
  join,
  readCommandTag,
  readMessage,
  type Relation,
  type Session,
  sql,
  type Step,
  type Values,
} from '../pg/index.js';

/** Maximum size of a batch: in changes, and approximately in bytes. */
const BATCH_CHANGES = 5_000;
const BATCH_BYTES = 4 * 1024 * 1024;

/** A change affected no row, or more than one, so the copy differs from the source. */
export class RowNotFound extends Error {}

interface Table extends Relation {
  readonly changes: Change[];
}

export class Applier {
  /** The number of changes applied so far. */
  changes = 0;
  private readonly tables = new Map<number, Table>();
  private waiting = new Set<Table>();
  private waitingChanges = 0;
  private waitingBytes = 0;
  private isSkipping = false;
  private isOpen = false;

  /**
   * @param session of the target's writer
   * @param isCopied whether the copy already contains the changes of this transaction
   */
  constructor(
    private readonly session: Session,
    private readonly isCopied: (xid: number) => boolean,
  ) {}

  /**
   * @returns a promise to await before the next message; undefined: no need to wait
   * @throws RowNotFound, PostgresError, ConnectionLost
   */
  take(bytes: Buffer): Promise<void> | undefined {
    const message = readMessage(bytes);
    switch (message?.type) {
      case 'begin':
        this.isSkipping = this.isCopied(message.xid);
        return undefined;
      case 'relation':
        this.tables.set(message.id, { ...message.relation, changes: [] });
        return undefined;
      case 'change':
        if (this.isSkipping) return undefined;
        return this.add(this.table(message.id), message.change, bytes.length);
      case 'truncate':
        return this.isSkipping ? undefined : this.truncate(message.ids);
      default:
        return undefined;
    }
  }

  /**
   * Applies and commits all changes taken so far.
   * @throws as {@link take}
   */
  async commit(): Promise<void> {
    await this.send();
    if (this.isOpen) await this.session.query(COMMIT);
    this.isOpen = false;
  }

  private add(table: Table, change: Change, bytes: number): Promise<void> | undefined {
    table.changes.push(change);
    this.waiting.add(table);
    this.waitingBytes += bytes;
    const isFull = ++this.waitingChanges >= BATCH_CHANGES || this.waitingBytes >= BATCH_BYTES;
    return isFull ? this.send() : undefined;
  }

  private async truncate(ids: readonly number[]): Promise<void> {
    await this.send();
    await this.run([sql`TRUNCATE ${join(ids.map((id) => nameOf(this.table(id))))}`]);
  }

  private async send(): Promise<void> {
    const steps: TableStep[] = [];
    for (const table of this.waiting) {
      steps.push(...stepsOf(table));
      table.changes.length = 0;
    }
    this.changes += this.waitingChanges;
    this.waiting = new Set();
    this.waitingChanges = this.waitingBytes = 0;
    const tags = await this.run(steps);
    steps.forEach(({ table: { schema, name }, rows }, i) => {
      const { count } = readCommandTag(tags[i] ?? '');
      if (count !== rows) throw new RowNotFound(`a changed row of ${schema}.${name} was not found on the target`);
    });
  }

  private async run(steps: readonly Step[]): Promise<string[]> {
    if (steps.length === 0) return [];
    if (!this.isOpen) await this.session.query(BEGIN);
    this.isOpen = true;
    return (await this.session.run(steps, { prepared: true })).map(({ tag }) => tag);
  }

  private table(id: number): Table {
    const table = this.tables.get(id);
    if (table === undefined) throw new Error('pgoutput sent a change of a table that it has not described');
    return table;
  }
}

const nameOf = ({ schema, name }: Relation) => ident(schema, name);

/** A step that must change exactly this many rows. */
interface TableStep extends Step {
  readonly table: Relation;
  readonly rows: number;
}

/** Consecutive inserts into a table share one COPY. */
function stepsOf(table: Table): TableStep[] {
  const steps: TableStep[] = [];
  let inserted: string[] = [];
  const copy = () => {
    if (inserted.length === 0) return;
    const columns = join(table.columns.map(({ name }) => ident(name)));
    const { text, params } = sql`COPY ${nameOf(table)} (${columns}) FROM STDIN`;
    steps.push({ table, text, params, data: [Buffer.from(inserted.join(''))], rows: inserted.length });
    inserted = [];
  };
  for (const change of table.changes) {
    if (change.kind === 'insert') inserted.push(copyLine(change.row));
    else {
      copy();
      const statement = change.kind === 'delete' ? deletion(table, change.old.values) : update(table, change);
      if (statement !== null) steps.push({ table, text: statement.text, params: statement.params, rows: 1 });
    }
  }
  copy();
  return steps;
}

const deletion = (table: Relation, key: Values) => sql`DELETE FROM ${nameOf(table)} WHERE ${isRow(table, key)}`;

/** Returns null if the update changes no column. */
function update(table: Relation, { old, row }: Extract<Change, { kind: 'update' }>) {
  const changed = table.columns.flatMap(({ name }, i) => {
    const value = row[i];
    return value === undefined ? [] : [sql`${ident(name)} = ${value}`];
  });
  if (changed.length === 0) return null;
  return sql`UPDATE ${nameOf(table)} SET ${join(changed)} WHERE ${isRow(table, old?.values ?? row)}`;
}

const isRow = ({ columns }: Relation, values: Values) =>
  join(
    columns.flatMap(({ name, isKey, isBuiltIn }, i) => {
      // Otherwise an operator of the project could take its place.
      const equals = isBuiltIn ? sql`OPERATOR(pg_catalog.=)` : sql`=`;
      return isKey ? [sql`${ident(name)} ${equals} ${values[i] ?? null}`] : [];
    }),
    ' AND ',
  );
