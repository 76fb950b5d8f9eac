/** The webhooks of all projects: what people do with them, and a runner for each one that is active (docs/webhooks.md). */
import { randomUUID } from 'node:crypto';
import { EngineError } from '../../contract/errors.js';
import { isUuid } from '../../contract/patterns.js';
import {
  type ChangeWebhookBody,
  type CreateWebhookBody,
  WEBHOOK_LIMITS,
  type WebhookTest,
} from '../../contract/wire/webhooks.js';
import type { Log } from '../../log.js';
import { allDone } from '../../promises.js';
import type { AuditRow } from '../../tenancy/control/audit-rows.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { DeliveryRow, LiveWebhook, WebhookFilter, WebhookRow } from '../../tenancy/control/webhook-rows.js';
import type { Credentials } from '../../tenancy/credentials.js';
import { cursorOf } from '../cursor.js';
import type { Feeds } from '../feeds.js';
import { Runner, type RunnerServices, type RunnerState, SecretLost } from './runner.js';
import { type Outcome, send } from './send.js';
import { newSecret, signedHeaders } from './signature.js';
import { Targets } from './targets.js';
import { Turns } from './turns.js';

export type { WebhookRow };

export interface WebhookServices {
  readonly control: ControlDatabase;
  readonly feeds: Feeds;
  readonly credentials: Credentials;
  readonly log: Log;
  /** The setting `webhook-networks`. */
  readonly networks: readonly string[];
  readonly turn: (projectId: string) => Promise<void> | undefined;
}

/** Whose rights a webhook reads with. */
export type ReadsAs = WebhookRow['readsAs'];

/** Deliveries that run at once: an endpoint that hangs leaves the line of the others after its first attempt. */
const FIRST = { total: 48, perProject: 8 };
const AGAIN = { total: 16, perProject: 4 };

/** How long a test waits for its turn. */
const TEST_WAIT_MS = 5_000;

export class Webhooks {
  /** What deliveries had as outcome, in this process. */
  readonly counts = { delivered: 0, failed: 0, changes: 0 };
  private readonly runners = new Map<string, Runner>();
  private readonly states = new Map<string, RunnerState>();
  private readonly targets: Targets;
  private readonly turns = { first: new Turns(FIRST), again: new Turns(AGAIN) };
  private isClosed = false;

  constructor(private readonly services: WebhookServices) {
    this.targets = new Targets(services.networks);
  }

  /** Goes on where an earlier service has ended. @throws EngineError database_unavailable */
  async open(): Promise<void> {
    for (const { id, isPaused, isStopped, isFailing } of await this.rows.states()) {
      if (isStopped) this.states.set(id, 'stopped');
      else if (!isPaused) this.start(id, isFailing ? 'failing' : 'active');
    }
  }

  /** Resolves when nothing more is sent. */
  async close(): Promise<void> {
    this.isClosed = true;
    await allDone([...this.runners.values()].map((runner) => runner.stop()));
  }

  /** How many there are of each state, without those that people have paused. */
  get load(): ReadonlyMap<RunnerState, number> {
    const load = new Map<RunnerState, number>([
      ['active', 0],
      ['failing', 0],
      ['stopped', 0],
    ]);
    for (const state of this.states.values()) load.set(state, (load.get(state) ?? 0) + 1);
    return load;
  }

  private get rows() {
    return this.services.control.webhooks;
  }

  // What people do

  /** The oldest first. */
  list(project: ProjectRow): Promise<WebhookRow[]> {
    return this.rows.list(project.id);
  }

  /** @throws EngineError not_found */
  async get(project: ProjectRow, id: string): Promise<WebhookRow> {
    return found(id, isUuid(id) ? await this.rows.find(project.id, id) : null);
  }

  /**
   * @param from the cursor after which changes are sent; undefined: from now on
   * @returns the webhook and its secret, which is not shown again
   * @throws EngineError invalid_request, not_found if the project has no feed, cursor_expired, request_in_flight, outcome_unknown
   */
  async create(
    project: ProjectRow,
    readsAs: ReadsAs,
    { url: text, from, ...filter }: CreateWebhookBody,
    entry: AuditRow | null,
  ): Promise<{ webhook: WebhookRow; secret: string }> {
    const { href: url } = this.targets.check(text);
    const existing = await this.rows.list(project.id);
    if (existing.length >= WEBHOOK_LIMITS.perProject) throw tooMany();
    const cursor = await this.cursorAt(project, readsAs, from);
    const id = randomUUID();
    const secret = newSecret();
    const sealed = this.services.credentials.seal(secret, id);
    const row = { id, url, readsAs, cursor, secret: sealed, ...NOT_NARROWED, ...filterOf(filter) };
    const webhook = await this.rows.insert(project.id, row, entry);
    if (webhook === null) throw tooMany();
    await this.restart(webhook);
    return { webhook, secret };
  }

  /**
   * @param readsAs as whoever changes it; null: as before
   * @throws EngineError invalid_request, not_found, outcome_unknown
   */
  async change(
    project: ProjectRow,
    id: string,
    readsAs: ReadsAs | null,
    { url, active, ...filter }: ChangeWebhookBody,
    entry: AuditRow | null,
  ): Promise<WebhookRow> {
    await this.get(project, id);
    const changed = await this.rows.change(
      project.id,
      id,
      {
        ...filterOf(filter),
        ...(url === undefined ? {} : { url: this.targets.check(url).href }),
        ...(active === undefined ? {} : { isPaused: !active }),
        ...(readsAs === null ? {} : { readsAs }),
      },
      entry,
    );
    return this.restarted(id, changed);
  }

  /** @returns the new secret, which is not shown again @throws EngineError not_found, outcome_unknown */
  async rotate(
    project: ProjectRow,
    id: string,
    previousHours: number,
    entry: AuditRow | null,
  ): Promise<{ webhook: WebhookRow; secret: string }> {
    await this.get(project, id);
    const secret = newSecret();
    const sealed = this.services.credentials.seal(secret, id);
    const changed = await this.rows.change(project.id, id, { secret: sealed }, entry, previousHours);
    return { webhook: await this.restarted(id, changed), secret };
  }

  /**
   * Sends again what is after the cursor, also if it was paused.
   * @throws EngineError not_found, cursor_expired, invalid_request, outcome_unknown
   */
  async replay(project: ProjectRow, id: string, from: string, entry: AuditRow | null): Promise<WebhookRow> {
    const { readsAs } = await this.get(project, id);
    const cursor = await this.cursorAt(project, readsAs, from);
    const changed = await this.rows.change(project.id, id, { cursor, isPaused: false }, entry);
    return this.restarted(id, changed);
  }

  /** @throws EngineError not_found, outcome_unknown */
  async delete(project: ProjectRow, id: string, entry: AuditRow | null): Promise<void> {
    await this.get(project, id);
    if (!(await this.rows.delete(project.id, id, entry))) throw missing(id);
    await this.stop(id);
  }

  /** The newest first. @throws EngineError not_found */
  async deliveries(project: ProjectRow, id: string): Promise<DeliveryRow[]> {
    await this.get(project, id);
    return this.rows.deliveries(id);
  }

  /**
   * Sends a message without changes, whatever the webhook is doing.
   * @throws EngineError not_found, overloaded, invalid_request if its secret cannot be read
   */
  async test(project: ProjectRow, id: string, signal: AbortSignal): Promise<WebhookTest> {
    await this.get(project, id);
    const webhook = found(id, await this.rows.live(id));
    const message = { type: 'test', project: project.name, webhook: id };
    const post = () => this.post(webhook, `test_${randomUUID()}`, Buffer.from(JSON.stringify(message)), signal);
    const { status, error, durationMs } = await this.turns.first.run(project.id, signal, post, TEST_WAIT_MS);
    return { delivered: error === null, status, error, duration_ms: durationMs };
  }

  /** A cursor that the feed has. @throws EngineError not_found, cursor_expired, invalid_request, database_unavailable */
  private async cursorAt(project: ProjectRow, readsAs: ReadsAs, from: string | undefined): Promise<string> {
    const feed = await this.services.feeds.of(project);
    const { cursor } = await feed.read({
      after: from === undefined ? null : cursorOf(from),
      role: project.placement[readsAs],
      filter: { tables: null, operations: null, columns: null },
      limit: 1,
      waitMs: 0,
      signal: AbortSignal.timeout(READ_MS),
      turn: () => this.services.turn(project.id),
    });
    return from ?? cursor;
  }

  // Runners

  private async restarted(id: string, changed: WebhookRow | null): Promise<WebhookRow> {
    const webhook = found(id, changed);
    await this.restart(webhook);
    return webhook;
  }

  private async restart({ id, isPaused, reason }: WebhookRow): Promise<void> {
    await this.stop(id);
    if (!isPaused) this.start(id, 'active');
    else if (reason !== null) this.states.set(id, 'stopped');
  }

  private start(id: string, state: RunnerState): void {
    if (this.isClosed || this.runners.has(id)) return;
    this.states.set(id, state);
    const runner = new Runner(id, this.runnerServices, {
      state: (now) => this.states.set(id, now),
      outcome: ({ error }, changes) => {
        this.counts[error === null ? 'delivered' : 'failed']++;
        if (error === null) this.counts.changes += changes;
      },
    });
    this.runners.set(id, runner);
    void runner.ended.then(() => {
      if (this.runners.get(id) !== runner) return;
      this.runners.delete(id);
      // It was paused, or deleted with its project.
      if (this.states.get(id) !== 'stopped') this.states.delete(id);
    });
  }

  private async stop(id: string): Promise<void> {
    const runner = this.runners.get(id);
    this.runners.delete(id);
    await runner?.stop();
    this.states.delete(id);
  }

  private get runnerServices(): RunnerServices {
    const { feeds, log, turn } = this.services;
    return { rows: this.rows, feeds, log, turn, turns: this.turns, post: (...message) => this.post(...message) };
  }

  /** @throws SecretLost */
  private async post(webhook: LiveWebhook, id: string, body: Buffer, signal: AbortSignal): Promise<Outcome> {
    const { secret, previousSecret, url } = webhook;
    const sealed = previousSecret === null ? [secret] : [secret, previousSecret];
    const secrets = sealed.map((one) => this.services.credentials.open(one, webhook.id));
    if (!secrets.every((one) => one !== null)) throw new SecretLost();
    const headers = signedHeaders(secrets, id, Math.floor(Date.now() / 1_000), body);
    return send(this.targets, new URL(url), headers, body, signal);
  }
}

/** How long it may take to look whether a cursor is one of the feed. */
const READ_MS = 10_000;

const NOT_NARROWED: WebhookFilter = { tables: null, ops: null, columns: null };

/** What is given of it. */
function filterOf({ tables, ops, columns }: Omit<ChangeWebhookBody, 'url' | 'active'>): Partial<WebhookFilter> {
  return {
    ...(tables === undefined ? {} : { tables: tables === 'all' ? null : tables }),
    ...(ops === undefined ? {} : { ops }),
    ...(columns === undefined ? {} : { columns: columns === 'all' ? null : columns }),
  };
}

const missing = (id: string) =>
  new EngineError('not_found', `The project has no webhook ${JSON.stringify(id.slice(0, 100))}`);

function found<T>(id: string, webhook: T | null): T {
  if (webhook === null) throw missing(id);
  return webhook;
}

const tooMany = () =>
  new EngineError('invalid_request', `The project has ${WEBHOOK_LIMITS.perProject} webhooks, which is the maximum`);
