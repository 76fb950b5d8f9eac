/** Runs free SQL to its end and counts its rows; none are kept. */
import { messageSize, readCommandTag } from '../../pg/index.js';
import type { Project } from '../../db/project.js';
import { RowReader } from './row-reader.js';
import { runSql, type SqlRequest, type SqlServices } from './run-sql.js';
import type { StoredResults } from './sql-result.js';
import type { DescribedStatement } from './statement.js';

/**
 * @returns the rows of the last statement: affected, or returned. Of a repeat with its Idempotency-Key: those of the first request
 * @throws EngineError see {@link runSql}
 */
export async function countSql(services: SqlServices, project: Project, request: SqlRequest): Promise<number> {
  const { throttle } = services;
  const results: StoredResults = [];
  const count = async ({ db, columns, params }: DescribedStatement): Promise<void> => {
    let received = 0;
    const reader = new RowReader(db, throttle, project.id, {
      takeRows: (buffer, start) => {
        received++;
        return start + messageSize(buffer, start);
      },
      takeLongRow: () => Promise.resolve(void received++),
    });
    try {
      const tag = await db.fetch(params, [], 0, reader.takeRows);
      await reader.settled();
      const { type, count: affected = 0 } = readCommandTag(tag ?? '');
      const rows = columns === null ? affected : received;
      results.push({ type, columns: '[]', rows: null, row_count: rows, truncated: false });
    } finally {
      reader.end();
    }
  };
  const earlier = await runSql(services, project, request, count, () => results);
  return (earlier ?? results).at(-1)?.row_count ?? 0;
}
