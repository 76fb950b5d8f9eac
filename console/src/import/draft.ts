/**
 * A chosen file: how to read it, and which column each of its fields goes to. Nothing is sent before the user agrees.
 */
import { computed, type Signal, signal } from '@preact/signals';
import { CdpError, type StoreOptions, type Table } from '../../../src/client/index.js';
import { NAME_PATTERN } from '../../../src/contract/names.js';
import { columnNames } from '../../../src/import/column-names.js';
import { type FieldMapping, requestedType } from '../../../src/import/field-mapping.js';
import { type ImportPlan, planImport, type PlanResult, type PlanOptions } from '../../../src/import/import-plan.js';
import type { FileRecord, ImportFile } from '../../../src/import/source.js';
import { membersOf } from '../../../src/import/json-records.js';
import { readCatalog, tableByName, tables } from '../schema/catalog.js';
import { currentSession, hasScope } from '../session.js';

/** The user's choices for a field. */
export interface FieldChoice {
  readonly isTaken: boolean;
  readonly column: string;
  /** A type of the API, or one of the epochs; an existing column keeps its type. */
  readonly type: string;
}

const NAME = new RegExp(NAME_PATTERN);

export class Draft {
  readonly options = signal<PlanOptions>({ quotes: true, decimal: '.', skipLines: 0 });
  readonly table: Signal<string>;
  /** undefined: the import creates the table. */
  readonly existing = signal<Table | undefined>(undefined);
  readonly planned = signal<PlanResult | null>(null);
  readonly error = signal<unknown>(null);
  /** The rows read so far; null if no file is being read. */
  readonly reading = signal<{ rows: number; share: number | null } | null>(null);
  readonly choices = signal<readonly FieldChoice[]>([]);
  /** The user's changes to the guesses, by field name. They survive a change of the reading options. */
  private readonly corrected = new Map<string, Partial<FieldChoice>>();
  /** The user's choices for records with an existing key, and for refused records. */
  readonly wantedStoring = signal<StoreOptions>({});
  /** The columns of each unique index of the table. */
  private readonly uniqueIndexes = signal<readonly (readonly string[])[]>([]);
  private stopReading = (): void => {};
  private run = 0;

  constructor(
    readonly file: ImportFile,
    table: string | undefined,
  ) {
    this.table = signal(table ?? tableNameOf(file.path));
  }

  get mappings(): readonly FieldMapping[] {
    return this.planned.value?.plan.files[0]?.mappings ?? [];
  }

  /** Reads the file with the current options. */
  async read(): Promise<void> {
    const run = ++this.run;
    const isStale = () => run !== this.run;
    this.stopReading();
    const file: ImportFile = {
      ...this.file,
      open: async (options) => {
        const source = await this.file.open(options);
        this.stopReading = source.input.close;
        if (isStale()) source.input.close();
        return source;
      },
    };
    const watch = (_label: string, progress: () => { rows: number; share: number | null }) => {
      const timer = setInterval(() => !isStale() && (this.reading.value = progress()), 200);
      return () => clearInterval(timer);
    };
    this.error.value = null;
    this.reading.value = { rows: 0, share: 0 };
    try {
      const existing = await findTable(this.table.value);
      const uniqueIndexes = existing?.kind === 'table' ? await uniqueIndexesOf(existing.name) : [];
      const options = { ...this.options.value, addColumns: hasScope('schema:write') };
      const planned = await planImport([file], existing, options, {}, watch);
      if (isStale()) return;
      this.existing.value = existing;
      this.uniqueIndexes.value = uniqueIndexes;
      this.planned.value = planned;
      this.choices.value = this.mappings.map((mapping) => this.withCorrections(mapping, choiceFor(mapping, existing)));
    } catch (error) {
      if (isStale()) return;
      this.planned.value = null;
      this.error.value = error;
    } finally {
      if (!isStale()) this.reading.value = null;
    }
  }

  /** Treats the first line as a record, whose fields then need names, or as the header again. */
  async setHeader(isHeader: boolean): Promise<void> {
    const { columns: _, ...others } = this.options.value;
    if (isHeader) this.options.value = others;
    else {
      const source = await this.file.open(others);
      source.input.close();
      this.options.value = { ...others, columns: (source.header ?? []).map((_name, i) => `column_${i + 1}`) };
    }
    await this.read();
  }

  choose(field: number, change: Partial<FieldChoice>): void {
    const name = this.mappings[field]?.field ?? '';
    this.corrected.set(name, { ...this.corrected.get(name), ...change });
    this.choices.value = this.choices.value.map((choice, i) => (i === field ? this.changed(choice, change) : choice));
  }

  private withCorrections({ field }: FieldMapping, guess: FieldChoice): FieldChoice {
    const corrections = this.corrected.get(field);
    return corrections === undefined ? guess : this.changed(guess, corrections);
  }

  /** An existing column keeps its type; only its times may be numbers. */
  private changed(choice: FieldChoice, change: Partial<FieldChoice>): FieldChoice {
    const next = { ...choice, ...change };
    const own = this.typeOf(next.column);
    const isEpoch = own === 'TIMESTAMP' && requestedType(next.type)?.epoch !== undefined;
    return own === undefined || isEpoch ? next : { ...next, type: own };
  }

  typeOf(column: string): string | undefined {
    return this.existing.value?.columns.find(({ name }) => name === column)?.type;
  }

  /** An error in the choice for a field, which prevents sending; '' if there is none. */
  problemOf(field: number): string {
    const choice = this.choices.value[field];
    if (choice === undefined || !choice.isTaken) return '';
    if (!NAME.test(choice.column)) return 'Letters, digits and underscores, not a digit first';
    const isTwice = this.choices.value.some(
      (other, i) => i !== field && other.isTaken && other.column.toLowerCase() === choice.column.toLowerCase(),
    );
    if (isTwice) return 'Another field goes to this column';
    if (choice.column !== 'id' && this.typeOf(choice.column) === undefined && !hasScope('schema:write'))
      return 'The table has no such column, and this token may not add one';
    return '';
  }

  readonly isReady = computed(
    () =>
      this.planned.value !== null &&
      this.reading.value === null &&
      NAME.test(this.table.value) &&
      (this.existing.value !== undefined || hasScope('schema:write')) &&
      this.choices.value.some(({ isTaken }) => isTaken) &&
      this.choices.value.every((_, i) => this.problemOf(i) === ''),
  );

  /** The columns that the import must create. */
  readonly newColumns = computed(() => {
    const missing = this.choices.value.filter(
      ({ isTaken, column }) => isTaken && column !== 'id' && this.typeOf(column) === undefined,
    );
    return missing.map(({ column, type }) => ({
      name: column,
      type: requestedType(type)?.type ?? 'TEXT',
    }));
  });

  /** Keys that can identify a row: those of which the file has every column. */
  readonly keys = computed(() => {
    const taken = new Set(this.choices.value.flatMap(({ isTaken, column }) => (isTaken ? [column] : [])));
    return this.uniqueIndexes.value.filter((columns) => columns.every((column) => taken.has(column)));
  });

  /** The columns of the table that can hold fields for which there is no column. */
  readonly collectors = computed(() => {
    const taken = new Set(this.choices.value.flatMap(({ isTaken, column }) => (isTaken ? [column] : [])));
    const columns = this.existing.value?.columns ?? [];
    return columns.flatMap(({ name, type }) => (type === 'JSONB' && !taken.has(name) ? [name] : []));
  });

  /** The user's choices, as far as they apply to the file. */
  readonly storing = computed((): StoreOptions => {
    const { onConflict, resolution = 'merge', unchanged, unknown, ...others } = this.wantedStoring.value;
    const key = this.keys.value.find((columns) => columns.join() === [onConflict].flat().join());
    const isKept = this.collectors.value.some((column) => unknown === `into:${column}`);
    return {
      ...others,
      ...(isKept && unknown !== undefined && { unknown }),
      ...(key !== undefined && { onConflict: key, resolution }),
      ...(key !== undefined && resolution !== 'ignore' && unchanged !== undefined && { unchanged }),
    };
  });

  /** The plan with the user's choices. */
  get plan(): ImportPlan {
    const { plan } = this.planned.value as PlanResult;
    const mappings = this.mappings.map((mapping, i) => {
      const { isTaken, column, type } = this.choices.value[i] as FieldChoice;
      if (!isTaken) return this.isCollected(mapping.field) ? collected(mapping) : leftOut(mapping);
      const { epoch: _, ...others } = mapping;
      const requested = requestedType(type);
      const own = column === 'id' ? 'uuid' : this.typeOf(column);
      return {
        ...others,
        column,
        type: own ?? requested?.type ?? type,
        ...(requested?.epoch === undefined ? {} : { epoch: requested.epoch }),
      };
    });
    return { ...plan, storing: this.storing.value, files: plan.files.map((file) => ({ ...file, mappings })) };
  }

  /** Whether the service puts a field that is not imported into a column for such fields. */
  private isCollected(field: string): boolean {
    const isColumn = field === 'id' || this.typeOf(field) !== undefined;
    return this.storing.value.unknown !== undefined && field !== '' && !isColumn;
  }

  /** The first values of a field, as written in the file. */
  samplesOf(field: number): (string | null)[] {
    const name = this.mappings[field]?.field ?? '';
    return (this.planned.value?.firstRecords[0] ?? []).map((record) => sampleOf(record, field, name));
  }

  leave(): void {
    this.run++;
    this.stopReading();
  }
}

const leftOut = ({ field }: FieldMapping): FieldMapping => ({ field, column: null, type: null });

const collected = (mapping: FieldMapping): FieldMapping => ({ ...mapping, column: mapping.field, isUnknown: true });

function choiceFor({ column, type }: FieldMapping, table: Table | undefined): FieldChoice {
  const isThere = column === 'id' || table?.columns.some(({ name }) => name === column);
  return {
    isTaken: column !== null && (isThere === true || hasScope('schema:write')),
    column: column ?? '',
    type: type ?? 'TEXT',
  };
}

function sampleOf({ cells, text = '' }: FileRecord, field: number, name: string): string | null {
  if (cells !== undefined) return cells[field] ?? null;
  const value = membersOf(text)?.find(([member]) => member === name)?.[1];
  return value === undefined || value === 'null' ? null : value.replace(/^"(.*)"$/s, '$1');
}

function tableNameOf(file: string): string {
  const [name = ''] = columnNames(
    [file.replace(/(\.(csv|tsv|tab|txt|ndjson|jsonl|json|xlsx|xlsm|parquet|gz))+$/i, '')],
    {
      keep: false,
      hasIds: true,
    },
  );
  return name;
}

/** Asks only for a table that the catalog has, because browsers log every 404 as an error. */
async function findTable(name: string): Promise<Table | undefined> {
  await readCatalog();
  const isUnknown = tables.value !== null && !tableByName.value.has(name);
  if (!NAME.test(name) || isUnknown) return undefined;
  try {
    return await currentSession().client.describe(name);
  } catch (error) {
    if (error instanceof CdpError && error.code === 'table_not_found') return undefined;
    throw error;
  }
}

/** Indexes that apply to every row and contain only columns, not expressions. */
async function uniqueIndexesOf(table: string): Promise<readonly (readonly string[])[]> {
  const indexes = await currentSession().client.indexes(table);
  return indexes.flatMap(({ unique, partial, valid, columns }) => {
    const named = columns.filter((column) => column !== null);
    return unique && !partial && valid && named.length === columns.length ? [named] : [];
  });
}
