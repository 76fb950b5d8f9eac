/**
 * The fast insert on a shape that is not older than it must be: the table is looked at before the first batch, and again
 * where the shape proves to be another one by now. To leave such batches to the INSERT would cost most just when many are
 * under way: each of them would be read by the slow way.
 */
import { readTables, tableToWrite } from '../../postgres/catalog/catalog.js';
import type { BatchAnswer } from '../../contract/wire/batch.js';
import type { Deadline } from '../admission/deadline.js';
import { type CopyOptions, prepareCopy, sendCopy } from './insert-by-copy.js';
import type { Project } from '../project.js';
import type { KnownShape } from './shape-cache.js';

/** A table whose shape changes all the time is for the INSERT, which holds it fast before it looks. */
const ATTEMPTS = 2;

/**
 * @returns the answer; null: nothing was stored, fall back to the reference path
 * @throws EngineError what {@link sendCopy} throws
 */
export async function insertFast(
  project: Project,
  table: string,
  body: Uint8Array,
  deadline: Deadline,
  options: CopyOptions,
): Promise<BatchAnswer | null> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const remembered = project.knownShape(table);
    const known = remembered === undefined ? await lookAt(project, table, deadline) : remembered;
    if (known === null) return null;
    const batch = prepareCopy(project, known, body, options);
    if (batch === null) return null;
    if (await sendCopy(project, known, batch, deadline)) return batch.answer;
    // If not its shape, something else was in the way.
    if (project.knownShape(table) === known) return null;
  }
  return null;
}

/** No lock: whatever changes behind it, the insert's check finds. */
async function lookAt(project: Project, table: string, deadline: Deadline): Promise<KnownShape | null> {
  const { schema } = project;
  const rows = await project.use(
    'typed',
    deadline,
    ({ session }) => session.query(tableToWrite(schema, table)),
    'none',
  );
  const [shape] = readTables(schema, rows);
  return shape === undefined ? null : project.rememberShape(shape);
}
