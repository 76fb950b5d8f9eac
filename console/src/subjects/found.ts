/** What the service finds about a person, with the values of rows as written, so that no digit is lost. */
import { Transport } from '../../../src/client/transport.js';
import type { FindResponse, SubjectBody } from '../../../src/contract/wire/subjects.js';
import { cellsOf } from '../../../src/import/json-records.js';
import { type Cell, membersOf } from '../results/cells.js';
import { currentSession, watchedFetch } from '../session.js';

export interface FoundTable {
  readonly table: string;
  readonly rowCount: number;
  /** At most 100. */
  readonly rows: readonly ReadonlyMap<string, Cell>[];
}

export interface Found extends Omit<FindResponse, 'tables'> {
  readonly who: SubjectBody;
  /** With at least one row. */
  readonly tables: readonly FoundTable[];
}

/** @throws CdpError */
export async function findPerson(who: SubjectBody): Promise<Found> {
  const { token, left } = currentSession();
  const transport = new Transport({ url: location.origin, token, fetch: watchedFetch(token), maxRetries: 2 });
  const response = await transport.open({
    method: 'POST',
    path: '/api/cdp/subjects/find',
    body: JSON.stringify(who),
    idempotent: true,
    signal: left,
  });
  const text = await response.text();
  const rest = JSON.parse(text) as FindResponse;
  const tables = cellsOf(membersOf(text).get('tables') ?? '[]').map((cell, i) => ({
    table: rest.tables[i]?.table ?? '',
    rowCount: rest.tables[i]?.row_count ?? 0,
    rows: cellsOf(membersOf(cell).get('rows') ?? '[]').map(membersOf),
  }));
  return { ...rest, who, tables: tables.filter(({ rowCount }) => rowCount > 0) };
}
