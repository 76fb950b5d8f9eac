/**
 * Moves of a project in any order of events: processes that carry one out step by step, lose its lock and still
 * continue, or die; a user who cancels; and the sweep that settles abandoned moves. The project lives in exactly one
 * place, and in the end nothing is left anywhere else.
 */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { moveProject, settle } from '../../src/moves/move.js';
import type { MoveServices } from '../../src/moves/move-services.js';
import type { MoveRow, MoveRows } from '../../src/moves/move-rows.js';
import { serverRefOf } from '../../src/tenancy/control/server-rows.js';
import { tryWithProjectLock } from '../../src/tenancy/control/project-lock.js';
import { type AddedServer, startAddedServer, variableWith } from '../support/added-server.js';
import { connected } from '../support/postgres.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';
import { parameters } from './run.js';

/** Servers of this test alone: others would make databases there meanwhile. */
let home: AddedServer;
let other: AddedServer;
let service: TestService;
let project: TestProject;
let services: MoveServices;
beforeAll(async () => {
  [home, other] = await Promise.all([startAddedServer(18), startAddedServer(18)]);
  service = await startTestService({}, { major: 18, connection: home.connection });
  const token = (await service.engine.tokens.create(null)).token;
  const body = { name: 'eu-1', url_reference: `env:${variableWith(other.url)}` };
  expect((await service.call('POST', '/api/cdp/admin/servers', { token, body })).status).toBe(201);
  project = await service.project('shop', 'default');
  await project.table('visits', { page: 'TEXT' });
  ({ services } = service.engine.moves as unknown as { services: MoveServices });
});
afterAll(async () => {
  await service.close();
  await Promise.all([home.close(), other.close()]);
});

/**
 * What a process writes down between its steps. Not what it asks under the lock of the fence, for which others wait.
 */
const STEPS: ReadonlySet<PropertyKey> = new Set(['fence', 'advance', 'switch', 'undo', 'unfence', 'end']);

/** A process that carries out a move: it stands before a step until it is let go on. */
class Mover {
  private readonly before: (() => void)[] = [];
  private isDead = false;
  private isFree = false;
  private loseLock = () => {};
  hasEnded = false;
  readonly ended: Promise<unknown>;

  constructor(readonly move: MoveRow) {
    const lost = new Promise<void>((resolve) => (this.loseLock = resolve));
    const mine = { ...services, moveRows: this.stepwise(services.moveRows) };
    const options = { verify: 'counts', maxPauseMs: null, signal: new AbortController().signal } as const;
    // As `Moves` does it: it settles what it leaves, if it can.
    this.ended = this.turn()
      .then(() => moveProject(mine, move, options, BY_ITSELF))
      .catch(() => {})
      .then(() => settle(mine, move))
      .catch(() => {})
      .finally(() => {
        this.hasEnded = true;
        this.loseLock();
      });
    void tryWithProjectLock(services.control.address, project.id, () => lost, 5_000);
  }

  private turn(): Promise<void> {
    return new Promise((goOn) => this.before.push(goOn));
  }

  private stepwise(rows: MoveRows): MoveRows {
    return new Proxy(rows, {
      get: (target, name) => {
        const method = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>;
        return async (...args: unknown[]) => {
          if (STEPS.has(name) && !this.isFree) await this.turn();
          if (this.isDead) throw new Error('The process has died');
          return method.apply(target, args);
        };
      },
    });
  }

  /** It stands before a step, or has ended. */
  private readonly standing = () => vi.waitUntil(() => this.hasEnded || this.before.length > 0, { timeout: 60_000 });

  async step(): Promise<void> {
    await this.standing();
    this.before.shift()?.();
    await this.standing();
  }

  /** Its lock is another's, and it does not know. */
  async lose(): Promise<void> {
    await this.standing();
    this.loseLock();
  }

  async die(): Promise<void> {
    await this.lose();
    this.isDead = true;
    await this.run();
  }

  async run(): Promise<void> {
    this.isFree = true;
    for (const goOn of this.before.splice(0)) goOn();
    await this.ended;
  }
}

async function begin(): Promise<Mover | null> {
  const { placement } = await service.engine.projects.get('shop');
  const server = await service.engine.control.servers.get(placement.added === null ? 'eu-1' : 'default');
  if (server === null) throw new Error('It was added');
  const target = await service.engine.servers.tenancyOf(serverRefOf(server)).newPlacement();
  const move = { id: randomUUID(), projectId: project.id, source: placement, target, mode: 'copy' as const };
  if ((await services.moveRows.insert(move)) !== null) return null;
  const row = await services.moveRows.get(move.id);
  return row && new Mover(row);
}

const THERE = `SELECT datname::text AS name FROM pg_database WHERE datname ~ '^d_' AND datname <> ALL ($1)
  UNION ALL SELECT rolname FROM pg_roles WHERE rolname ~ '^[wrb]_' AND rolname <> ALL ($1)`;

/** Databases and roles on both servers, but for those that were there before, and those of the project. */
async function leftBehind(): Promise<string[]> {
  const { placement } = await service.engine.projects.get('shop');
  const known = [...foreign, placement.database, placement.writer, placement.reader];
  const ask = (client: { query(text: string, values: unknown[]): Promise<{ rows: { name: string }[] }> }) =>
    client.query(THERE, [known]);
  const found = await Promise.all([home, other].map(({ connection }) => connected(connection, ask)));
  return found.flatMap(({ rows }) => rows.map(({ name }) => name));
}

/** What was there before. */
let foreign: string[] = [];

async function livesInOnePlace(): Promise<void> {
  const { placement } = await service.engine.projects.get('shop');
  const found = await connected((placement.added === null ? home : other).connection, (client) =>
    client.query('SELECT FROM pg_database WHERE datname = $1', [placement.database]),
  );
  expect(found.rowCount).toBe(1);
}

const event = fc.oneof(
  { weight: 6, arbitrary: fc.constant('step' as const) },
  { weight: 3, arbitrary: fc.constant('step of one without its lock' as const) },
  { weight: 3, arbitrary: fc.constantFrom('lose', 'lose', 'die', 'cancel', 'sweep', 'sweep') },
);

it('the project lives in one place, and nothing is left elsewhere', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 6, maxLength: 30, size: 'max' }), async (events) => {
      foreign = [];
      foreign = await leftBehind();
      let mover = await begin();
      const lost: Mover[] = [];
      const lose = () => {
        if (mover !== null) lost.push(mover);
        mover = null;
      };
      for (const what of events) {
        if (mover?.hasEnded === true) lose();
        if (what === 'step') await (mover ??= await begin())?.step();
        if (what === 'step of one without its lock') await lost.at(-1)?.step();
        if (what === 'cancel')
          await service.engine.moves.cancel(String((lost.at(-1) ?? mover)?.move.id)).catch(() => {});
        if (what === 'sweep') await service.engine.moves.recover();
        if (what === 'lose' || what === 'die') {
          await mover?.[what]();
          lose();
        }
        await livesInOnePlace();
      }
      lose();
      for (const one of lost) await one.run();
      await service.engine.moves.recover();
      expect(await services.moveRows.listOpen()).toEqual([]);
      expect(await leftBehind()).toEqual([]);
      await vi.waitFor(
        async () => {
          const body = [{ page: 'a' }];
          const response = await project.call('POST', '/api/cdp/data/visits', { body });
          expect(response.status, response.text).toBe(201);
        },
        { timeout: 20_000 },
      );
    }),
    { ...parameters<[string[]]>(4), endOnFailure: true },
  );
});
