/**
 * One run of SQL from a tab: a single statement as a stream of any size, several as one transaction with a result for
 * each.
 */
import { signal } from '@preact/signals';
import { CdpError } from '../../../src/client/index.js';
import { splitStatements } from '../../../src/contract/sql-statements.js';
import type { Warning } from '../../../src/contract/wire/sql.js';
import { cellsOf } from '../../../src/import/json-records.js';
import { membersOf, textOf } from '../results/cells.js';
import { Result, type ResultColumn } from '../results/result.js';
import { currentSession } from '../session.js';
import { offsetOf, parameterCount } from './statements.js';

export interface RunRequest {
  readonly text: string;
  readonly params: readonly (string | null)[];
  readonly readOnly: boolean;
  /** The offset of `text` in the editor; smaller if something was inserted before the text. */
  readonly offset: number;
}

/** An error and its position. */
export interface Failure {
  readonly error: CdpError;
  /** In the editor; undefined if Postgres reported no position. */
  readonly offset: number | undefined;
}

export type RunState = 'running' | 'done' | 'failed' | 'stopped';

export class Run {
  readonly request: RunRequest;
  readonly startedAt = Date.now();
  readonly state = signal<RunState>('running');
  readonly results = signal<readonly Result[]>([]);
  readonly failure = signal<Failure | null>(null);
  /** Of Postgres, about all statements. */
  readonly warnings = signal<readonly Warning[]>([]);
  /** Milliseconds, known after the run has ended. */
  readonly duration = signal(0);
  readonly ended: Promise<void>;
  readonly #abort = new AbortController();
  readonly #signal = AbortSignal.any([this.#abort.signal, currentSession().left]);

  constructor(question: RunRequest) {
    this.request = question;
    this.ended = this.#run();
  }

  /** The service cancels the statement in Postgres when its client disconnects. */
  stop(): void {
    this.#abort.abort();
  }

  /** Releases the rows of its results. */
  release(): void {
    for (const result of this.results.value) result.release();
  }

  async #run(): Promise<void> {
    const started = performance.now();
    try {
      if (splitStatements(this.request.text).length === 1) await this.#stream();
      else await this.#collect();
      this.state.value = 'done';
    } catch (thrown) {
      this.#fail(thrown);
    } finally {
      this.duration.value = performance.now() - started;
    }
  }

  async #stream(): Promise<void> {
    const { text, params } = this.request;
    const { columns, batches } = await currentSession().client.sqlArrays(text, params, this.#options());
    const result = new Result(columns.map(({ name, type }) => ({ name, type: type ?? '' })));
    this.results.value = [result];
    for (let batch = await batches.next(); ; batch = await batches.next()) {
      if (batch.done) {
        this.warnings.value = batch.value.warnings ?? [];
        return result.end(batch.value.type ?? firstWord(text), batch.value.row_count);
      }
      for (const line of batch.value) result.take(line);
    }
  }

  async #collect(): Promise<void> {
    const { text } = this.request;
    if (parameterCount(text) > 0)
      throw new CdpError('caller_error', 'Parameters such as $1 are for a statement that runs alone', {
        hint: 'Nothing was sent. Put the cursor into the statement and run it by itself.',
      });
    const json = await currentSession().client.queryJson(text, [], { ...this.#options(), row_mode: 'array' });
    const members = membersOf(json);
    const each = members.has('results') ? cellsOf(members.get('results') ?? '[]').map(membersOf) : [members];
    this.warnings.value = JSON.parse(members.get('warnings') ?? '[]') as Warning[];
    this.results.value = each.map((result) => {
      const { columns, type, row_count, affected_rows, truncated } = JSON.parse(
        `{${['columns', 'type', 'row_count', 'affected_rows', 'truncated']
          .filter((name) => result.has(name))
          .map((name) => `"${name}":${result.get(name)}`)
          .join()}}`,
      ) as { columns: ResultColumn[]; type: string; row_count: number; affected_rows?: number; truncated: boolean };
      const made = new Result(columns);
      for (const row of cellsOf(result.get('rows') ?? '[]')) made.take(row);
      made.end(type, columns.length === 0 ? (affected_rows ?? 0) : row_count, truncated);
      return made;
    });
  }

  #options() {
    return {
      numbers: 'raw',
      timeout_ms: 60_000,
      signal: this.#signal,
      ...(this.request.readOnly ? { read_only: true } : {}),
    } as const;
  }

  #fail(thrown: unknown): void {
    for (const result of this.results.value) result.breakOff();
    if (this.#signal.aborted) {
      this.state.value = 'stopped';
      return;
    }
    const error = thrown instanceof CdpError ? thrown : new CdpError('unexpected_answer', String(thrown));
    const { text, offset } = this.request;
    const position = error.postgres?.position;
    const place = position === undefined ? -1 : offset + offsetOf(text, position);
    this.failure.value = { error, offset: place < 0 ? undefined : place };
    this.state.value = 'failed';
  }
}

const firstWord = (text: string): string => (/[A-Za-z]+/.exec(text)?.[0] ?? '').toUpperCase();

/** The plan, if the result is that of `EXPLAIN (FORMAT JSON)`. */
export function planIn(result: Result): string | undefined {
  const [column, ...others] = result.columns;
  if (column?.name !== 'QUERY PLAN' || others.length > 0 || result.held !== 1 || !/^json$/i.test(column.type)) return;
  const [cell] = result.cells(0);
  return cell === undefined ? undefined : textOf(cell, column.type);
}
