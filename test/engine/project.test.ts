/** A project as one request sees it (engine/project.ts). */
import { expect, it, vi } from 'vitest';
import { NEVER, typedDeadline } from '../../src/engine/limits/deadline.js';
import { Project, type SharedServices } from '../../src/engine/project.js';
import type { ProjectRow } from '../../src/tenancy/control/control-rows.js';

it('in a dry run lends no connection that writes, except to runWrite, which rolls back', async () => {
  const use = vi.fn(() => Promise.resolve('read'));
  const row = { id: 'p', placement: { schema: 'data' } } as unknown as ProjectRow;
  const project = new Project(row, { database: { use } } as unknown as SharedServices, null).inDryRun();
  const deadline = typedDeadline(NEVER);
  for (const connection of ['typed', 'sql-write'] as const) {
    expect(() => project.use({ connection, deadline }, () => Promise.resolve())).toThrow('only by runWrite');
  }
  expect(use).not.toHaveBeenCalled();
  expect(await project.use({ connection: 'typed-read', deadline }, () => Promise.resolve())).toBe('read');
});
