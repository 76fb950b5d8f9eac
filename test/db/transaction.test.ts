/** How the work on a project's database begins and ends (src/db/transaction.ts, src/db/project.ts). */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { NEVER_ABORTED } from '../../src/db/backend-request.js';
import type { Project } from '../../src/db/project.js';
import { planCommit, commitError } from '../../src/db/transaction.js';
import type { QueryRunner } from '../../src/db/query-runner.js';
import { ConnectionLost, type Session, sql } from '../../src/pg/index.js';
import { startTestService, type TestService } from '../support/service.js';

let service: TestService;
let project: Project;
let rows: () => Promise<Record<string, unknown>[]>;

beforeAll(async () => {
  service = await startTestService();
  const made = await service.project();
  await made.table('notes', { text: 'TEXT' });
  project = service.engine.admit(await service.engine.projects.get(made.name), null);
  rows = () => made.rows('SELECT text FROM notes ORDER BY text');
});
afterAll(() => service.close());

const insert = (text: string) => sql`INSERT INTO data.notes (text) VALUES (${text})`;

it('stores what was done before the end and with it, or nothing', async () => {
  const { response } = await project.write({ signal: NEVER_ABORTED }, async (db) => {
    await db.run([insert('before')]);
    return planCommit('done', [insert('with')]);
  });
  expect(response).toBe('done');
  const broken = project.write({ signal: NEVER_ABORTED }, async (db) => {
    await db.run([insert('lost')]);
    throw new Error('broken');
  });
  await expect(broken).rejects.toThrow('broken');
  expect(
    await project.write({ signal: NEVER_ABORTED }, async (db) => {
      await db.run([insert('lost, too')]);
      return { rollback: 'undone' };
    }),
  ).toBe('undone');
  expect(await rows()).toEqual([{ text: 'before' }, { text: 'with' }]);
});

it('gives a refusal of the last statements to the work, after the rollback', async () => {
  const write = project.write<string>({ signal: NEVER_ABORTED }, async (db) => {
    await db.run([insert('lost')]);
    return {
      response: null,
      beforeCommit: [sql`SELECT 1`, sql`SELECT 1 / 0`],
      resultOf: () => 'stored',
      onRefused: async ({ sqlstate }, done, after) => {
        const [count] = await after.query(sql`SELECT count(*) FROM data.notes WHERE text = 'lost'`);
        return `${sqlstate} after ${done.length}, ${count?.[0]} stored`;
      },
    };
  });
  expect(await write).toBe('22012 after 1, 0 stored');
});

it('a transaction whose work threw has ended, too', async () => {
  const kept: QueryRunner[] = [];
  const broken = (db: QueryRunner): never => {
    kept.push(db);
    throw new Error('broken');
  };
  await expect(project.read({ signal: NEVER_ABORTED }, broken)).rejects.toThrow('broken');
  await expect(project.write({ signal: NEVER_ABORTED }, broken)).rejects.toThrow('broken');
  const refused = { response: null, beforeCommit: [sql`SELECT 1 / 0`], resultOf: () => null };
  const write = project.write<null>({ signal: NEVER_ABORTED }, () => ({
    ...refused,
    onRefused: (_, __, db) => broken(db),
  }));
  await expect(write).rejects.toThrow('broken');
  await expect(project.write({ signal: NEVER_ABORTED }, () => ({ afterRollback: broken }))).rejects.toThrow('broken');
  expect(kept).toHaveLength(4);
  for (const db of kept) await expect(db.query(sql`SELECT 1`)).rejects.toThrow('The transaction has ended');
});

it('a transaction that is used after its end throws', async () => {
  let kept: QueryRunner | undefined;
  await project.read({ signal: NEVER_ABORTED }, (db) => {
    kept = db;
    return db.query(sql`SELECT 1`);
  });
  await expect(kept?.query(sql`SELECT 1`)).rejects.toThrow('The transaction has ended');
});

it('advises to retry with the key only if the request has one', () => {
  const session = { closed: true } as Session;
  const adviceOf = (repeats: Parameters<typeof commitError>[2]) => {
    const { message } = commitError(session, new ConnectionLost('lost'), repeats);
    return message.replace(/^.*?: /, '');
  };
  expect(adviceOf({ hasKey: true })).toBe('retry with the same Idempotency-Key, which settles it');
  expect(adviceOf({ isIdempotent: true })).toBe('retry, which does nothing twice');
  expect(adviceOf({})).toMatch(/^check what was stored before retrying/);
});
