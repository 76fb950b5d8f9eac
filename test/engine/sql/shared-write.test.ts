/** The same query of constants, asked several times in one turn, goes out in one write; each gets the answer of its own. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { ClientDeparture, STAYS } from '../../../src/engine/admission/departure.js';
import { clientLeft } from '../../../src/engine/admission/running-request.js';
import type { Project } from '../../../src/engine/project.js';
import { collectSql } from '../../../src/engine/sql/collect.js';
import type { CollectRequest, SqlResult } from '../../../src/engine/sql/sql-result.js';
import { ConnectionLost } from '../../../src/postgres/errors.js';
import { runUnnamed, SYNC } from '../../../src/postgres/wire/messages.js';
import { Session } from '../../../src/postgres/wire/session.js';
import { testServers } from '../../support/postgres.js';
import { startTestService, type TestService } from '../../support/service.js';

type Sent = Parameters<Session['sendHarmless']>;

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let service: TestService;
  let project: Project;

  beforeAll(async () => {
    service = await startTestService({}, server);
  });
  afterAll(() => service.close());
  afterEach(() => void vi.restoreAllMocks());

  /** As a request: each sees the project by itself. */
  let collect: (sql: string, rest?: Partial<CollectRequest>) => Promise<SqlResult | undefined>;
  beforeEach(async () => {
    const row = await service.engine.projects.get((await service.project()).name);
    collect = async (sql, rest = {}) => {
      project = service.engine.project(row);
      const lane = { readOnly: false, timeoutMs: 30_000, signal: STAYS };
      const request = { sql, params: [], rowMode: 'object', maxRows: 10, ...lane, ...rest } as const;
      const [result] = await collectSql(project, request);
      return result;
    };
    for (const readOnly of [false, true]) for (const sql of [ONE, TWO]) await ask(sql, { readOnly });
  });

  const ask = async (sql: string, rest?: Partial<CollectRequest>): Promise<string> => {
    const { type, rowCount, truncated, rows } = (await collect(sql, rest)) ?? {};
    return `${type} ${rowCount} ${truncated} ${Buffer.concat(rows?.views() ?? []).toString()}`;
  };

  const ONE = 'SELECT 1 AS n';
  const TWO = `SELECT 2 AS n, 'é' AS s`;
  /** Short as a statement, long as JSON. */
  const LONG_VALUE = '\x01'.repeat(4_000);
  const LONG = `SELECT '${LONG_VALUE}' AS s`;
  const ALONE = 'SELECT 1 false {"n":1}';
  const times = (count: number, rest: Partial<CollectRequest> = {}) =>
    Promise.all(Array.from({ length: count }, () => ask(ONE, rest)));

  it.each([false, true])('as one of many in one write (as the reader: %s)', async (readOnly) => {
    const sent = vi.spyOn(Session.prototype, 'sendHarmless');
    expect(await times(8, { readOnly })).toEqual(Array(8).fill(ALONE));
    expect(sent).toHaveBeenCalledTimes(1);
    expect(await times(8, { readOnly })).toEqual(Array(8).fill(ALONE));
    expect(sent).toHaveBeenCalledTimes(2);
    expect(await ask(ONE, { readOnly })).toBe(ALONE);
  });

  it('in the form and number that each has asked for', async () => {
    const sent = vi.spyOn(Session.prototype, 'sendHarmless');
    const forms = [{}, { rowMode: 'array' }, { maxRows: 0 }, { maxRows: 1 }, {}] as const;
    expect(await Promise.all(forms.map((form) => ask(TWO, form)))).toEqual([
      'SELECT 1 false {"n":2,"s":"é"}',
      'SELECT 1 false [2,"é"]',
      'SELECT 0 true ',
      'SELECT 1 false {"n":2,"s":"é"}',
      'SELECT 1 false {"n":2,"s":"é"}',
    ]);
    expect(sent).toHaveBeenCalledTimes(1);
  });

  it('from rows that are encoded once, whose memory nobody gives back', async () => {
    expect(await Promise.all([collect(LONG), collect(LONG)])).toHaveLength(2);
    const [first, second] = await Promise.all([collect(LONG), collect(LONG)]);
    expect(second?.rows).toBe(first?.rows);
    expect(first?.rows?.isLarge).toBe(false);
    const alone = await collect(LONG);
    expect(alone?.rows?.isLarge).toBe(true);
    expect(alone?.rows?.views()).toEqual(first?.rows?.views());
  });

  it('as a whole answer of its own', async () => {
    const asker = await service.project();
    const answer = (sql: string) => asker.call('POST', '/api/cdp/sql', { body: { sql } });
    for (const [sql, row] of [
      [ONE, { n: 1 }],
      [LONG, { s: LONG_VALUE }],
    ] as const) {
      const alone = await answer(sql);
      expect(alone.body).toMatchObject({ success: true, type: 'SELECT', rows: [row], row_count: 1, truncated: false });
      for (let turn = 0; turn < 3; turn++) {
        const answers = await Promise.all(Array.from({ length: 12 }, () => answer(sql)));
        expect(answers.map(({ status, text }) => [status, text])).toEqual(Array(12).fill([200, alone.text]));
      }
    }
  });

  it('apart from other queries, lanes and time limits', async () => {
    const sent = vi.spyOn(Session.prototype, 'sendHarmless');
    const answers = [ask(ONE), ask(TWO), ask(ONE, { readOnly: true }), ask(ONE, { timeoutMs: 20_000 }), ask(ONE)];
    expect(new Set(await Promise.all(answers))).toEqual(new Set([ALONE, 'SELECT 1 false {"n":2,"s":"é"}']));
    expect(sent).toHaveBeenCalledTimes(4);
  });

  it('with parameters for themselves', async () => {
    const sql = 'SELECT $1::int AS n';
    const asked = (text: string) => ask(sql, { params: [{ kind: 'number', text }] });
    await asked('1');
    const answers = await Promise.all(['1', '2', '3'].map(asked));
    expect(answers).toEqual([1, 2, 3].map((n) => `SELECT 1 false {"n":${n}}`));
  });

  it('in writes of a bounded size', async () => {
    const sent = vi.spyOn(Session.prototype, 'sendHarmless');
    expect(await times(104)).toEqual(Array(104).fill(ALONE));
    expect(sent.mock.calls.length).toBe(5);
  });

  it('where one of them has left', async () => {
    const left = new ClientDeparture();
    const answers = [ask(ONE), ask(ONE, { signal: left }), ask(ONE)];
    left.happen();
    expect(await Promise.all(answers)).toEqual([ALONE, ALONE, ALONE]);
    // Alone there is nobody that it would be done for.
    await expect(ask(ONE, { signal: left })).rejects.toThrow(clientLeft().message);
  });

  it('once more where their connection is lost', async () => {
    vi.spyOn(Session.prototype, 'sendHarmless').mockImplementationOnce(function (this: Session, ...sent: Sent) {
      const answered = this.sendHarmless(...sent);
      this.destroy(new ConnectionLost('The connection to Postgres was lost'));
      return answered;
    });
    expect(await times(5)).toEqual(Array(5).fill(ALONE));
  });

  it('each in the ordinary way where Postgres refuses them', async () => {
    const prepare = vi.spyOn(Session.prototype, 'prepare');
    vi.spyOn(Session.prototype, 'sendHarmless').mockImplementationOnce(function (this: Session, _bytes, ...rest) {
      const refused = runUnnamed([{ text: 'SELECT 1 / 0', params: [] }]);
      return this.sendHarmless(Buffer.concat([...refused, SYNC]), ...rest);
    });
    expect(await times(5)).toEqual(Array(5).fill(ALONE));
    expect(prepare).toHaveBeenCalledTimes(5);
  });

  it('and all are told when their time is up', async () => {
    vi.spyOn(Session.prototype, 'sendHarmless').mockImplementationOnce(async function (this: Session, ...sent) {
      await this.run([{ text: 'SELECT pg_sleep(60)', params: [] }]);
      return this.sendHarmless(...sent);
    });
    const outcomes = await Promise.allSettled(Array.from({ length: 3 }, () => ask(ONE, { timeoutMs: 200 })));
    for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: { code: 'query_timeout' } });
    expect(await times(2)).toEqual([ALONE, ALONE]);
  });
});
