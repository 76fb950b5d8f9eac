/** Delivers the changes of one webhook, in order and one delivery at a time, until it is paused or deleted. */
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError, messageOf } from '../../contract/errors.js';
import type { Log } from '../../log.js';
import type { LiveWebhook, WebhookRows } from '../../tenancy/control/webhook-rows.js';
import type { Feed } from '../feed.js';
import type { Feeds } from '../feeds.js';
import { ChangeTooLarge, nextDelivery, reading } from './delivery.js';
import type { Outcome } from './send.js';
import type { Turns } from './turns.js';

export interface RunnerServices {
  readonly rows: WebhookRows;
  readonly feeds: Pick<Feeds, 'of'>;
  readonly log: Log;
  /** For first attempts, and for what has failed before. */
  readonly turns: { readonly first: Turns; readonly again: Turns };
  /** Signs a message, and sends it. @throws EngineError internal if the secret cannot be read */
  post(webhook: LiveWebhook, id: string, body: Buffer, signal: AbortSignal): Promise<Outcome>;
  /** Waits until more of the project's changes may be decoded. */
  turn(projectId: string): Promise<void> | undefined;
}

/** What the metrics show of it. */
export type RunnerState = 'active' | 'failing' | 'stopped';

/** After the first failure; each further one doubles it. */
const RETRY_MS = 5_000;
const RETRY_MAX_MS = 3_600_000;
const GIVE_UP_MS = 3 * 24 * 3_600_000;

/** After trouble of the service itself. */
const TROUBLE_MS = 1_000;
const TROUBLE_MAX_MS = 60_000;

/** How often a project is looked at that is not active. */
const INACTIVE_MS = 60_000;

/** How often the place is stored while changes pass that are not for the endpoint. */
const PASSING_MS = 60_000;

export class Runner {
  readonly ended: Promise<void>;
  private readonly halt = new AbortController();
  private hasMore = false;

  constructor(
    private readonly id: string,
    private readonly services: RunnerServices,
    private readonly note: { state(state: RunnerState): void; outcome(outcome: Outcome, changes: number): void },
  ) {
    this.ended = this.run();
  }

  /** Resolves when nothing more is sent. */
  async stop(): Promise<void> {
    this.halt.abort();
    await this.ended;
  }

  private get signal(): AbortSignal {
    return this.halt.signal;
  }

  /** Never rejects. */
  private async run(): Promise<void> {
    let trouble: string | null = null;
    for (let pauseMs = TROUBLE_MS; !this.signal.aborted;) {
      try {
        if (!(await this.step())) return;
        [trouble, pauseMs] = [null, TROUBLE_MS];
      } catch (error) {
        if (this.signal.aborted) return;
        const message = messageOf(error);
        if (trouble !== message)
          this.services.log.warn(
            { webhook: this.id, error: message },
            'a webhook waits, since its changes cannot be read',
          );
        trouble = message;
        await this.sleep(withJitter(pauseMs));
        pauseMs = Math.min(pauseMs * 2, TROUBLE_MAX_MS);
      }
    }
  }

  /** Waits for changes, or delivers some. @returns false if it is over */
  private async step(): Promise<boolean> {
    const { rows, turns } = this.services;
    const webhook = await rows.live(this.id);
    if (webhook === null || webhook.isPaused) return false;
    const { project, attempts, pending, retryInMs } = webhook;
    this.note.state(attempts > 0 ? 'failing' : 'active');
    if (project.status !== 'active') await this.sleep(withJitter(INACTIVE_MS));
    else if (retryInMs > 0) await this.sleep(retryInMs);
    else {
      try {
        const feed = await this.services.feeds.of(project);
        if (!this.hasMore && pending === null) await this.wait(feed, webhook);
        else
          await turns[attempts > 0 ? 'again' : 'first'].run(project.id, this.signal, () => this.deliver(feed, webhook));
      } catch (error) {
        const reason = reasonToPause(error);
        if (reason === null) throw error;
        if (await rows.pause(webhook, reason)) this.paused(webhook, reason);
      }
    }
    return true;
  }

  private async wait(feed: Feed, webhook: LiveWebhook): Promise<void> {
    const { signal } = this;
    const options = { ...reading(webhook), ...this.options(webhook), limit: 1, waitMs: PASSING_MS, signal };
    const page = await feed.read(options);
    this.hasMore = page.changes.length > 0;
    if (!this.hasMore && page.cursor !== webhook.cursor) await this.services.rows.passed(webhook, page.cursor);
  }

  private options({ project }: LiveWebhook) {
    return { signal: this.signal, turn: () => this.services.turn(project.id) };
  }

  private async deliver(feed: Feed, webhook: LiveWebhook): Promise<void> {
    const { rows } = this.services;
    const delivery = await nextDelivery(feed, webhook, this.options(webhook));
    this.hasMore = delivery?.hasMore ?? false;
    if (delivery === null) return;
    // Known before it is sent, so that a service that ends here sends the same again.
    if (delivery.id !== webhook.pending && !(await rows.begin(webhook, delivery.id))) return;
    const outcome = await this.services.post(webhook, delivery.id, delivery.body, this.signal);
    this.note.outcome(outcome, delivery.changes);
    const attempt = { messageId: delivery.id, attempt: webhook.attempts + 1, changes: delivery.changes, ...outcome };
    if (outcome.error === null) {
      await rows.confirmed(webhook, delivery.id, attempt);
      return;
    }
    this.hasMore = false;
    const reason = reasonToGiveUp(webhook, outcome);
    await rows.failed(webhook, attempt, retryMsAfter(webhook.attempts), reason);
    if (reason === null) this.note.state('failing');
    else this.paused(webhook, reason);
  }

  private paused({ id, project }: LiveWebhook, reason: string): void {
    this.note.state('stopped');
    this.services.log.error(
      { project: project.name, webhook: id, reason },
      'a webhook is paused: it sends nothing more',
    );
  }

  private async sleep(ms: number): Promise<void> {
    // It ends early only with the signal, which the loop sees.
    await sleep(ms, undefined, { signal: this.signal, ref: false }).catch(() => {});
  }
}

/** Between half of it and all of it. */
const withJitter = (ms: number): number => ms * (0.5 + Math.random() / 2);

/** @param attempts that failed before this one */
const retryMsAfter = (attempts: number): number =>
  withJitter(Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** Math.min(attempts, 20)));

/** null: it is tried again. */
function reasonToGiveUp({ failingForMs }: LiveWebhook, { status, error }: Outcome): string | null {
  if (status === 410) return 'The endpoint answered 410: it wants no more. Resume it if it does.';
  if (failingForMs < GIVE_UP_MS) return null;
  return `No delivery was confirmed for three days; the last attempt: ${error}. Resume it once the endpoint is well: it goes on where it was.`;
}

/** What reading cannot get over without a person; null: it is tried again. */
function reasonToPause(error: unknown): string | null {
  if (error instanceof ChangeTooLarge || error instanceof SecretLost) return error.message;
  if (!(error instanceof EngineError)) return null;
  if (error.code === 'cursor_expired')
    return `${error.message}. ${error.hint ?? ''} Then replay from that cursor, or from the oldest one.`;
  if (error.code === 'not_found')
    return `${error.message}. Turn the feed on, read the tables again, and replay from the cursor of that.`;
  if (error.code === 'invalid_request') return `${error.message}. Replay from a cursor that is.`;
  return null;
}

export class SecretLost extends Error {
  constructor() {
    super('Its secret cannot be read: it was sealed by another installation. Give it a new one, and resume it.');
  }
}
