/** What the primary process and its workers say to each other, over the channel that Node opens between them. */
import type { MetricObjectWithValues, MetricValue } from 'prom-client';
import type { ServerAddress } from '../postgres/server.js';
import type { Config } from '../settings.js';
import type { TraceExport } from '../trace-export.js';

/** What a worker is told when it starts. */
export interface Orders {
  /** From 1; it stays with the worker that takes the place of one that has ended. */
  readonly number: number;
  /** The settings, with this worker's part of each limit. */
  readonly config: Config;
  /** The embedded server, which the primary runs; null: the settings name another one. */
  readonly embedded: EmbeddedServer | null;
  /** Where spans go; null: nowhere. */
  readonly traces: TraceExport | null;
}

export interface EmbeddedServer {
  readonly address: ServerAddress;
  readonly secret: string;
  /** Process id of its postmaster now. */
  readonly postmaster: number;
}

export type ListenerName = 'api' | 'metrics';

export type Metrics = readonly MetricObjectWithValues<MetricValue<string>>[];

/** A window of a rate limit as the primary counts it. */
export interface Counted {
  readonly count: number;
  readonly msLeft: number;
}

/** Comes with a connection. */
export interface HandOver {
  readonly say: 'connection';
  readonly id: number;
  readonly listener: ListenerName;
}

/** `answer` answers the worker's question of that id. */
export type ToWorker =
  | { readonly say: 'start'; readonly orders: Orders }
  | HandOver
  | { readonly say: 'postmaster'; readonly pid: number }
  | { readonly say: 'welcome'; readonly id: number }
  | { readonly say: 'metrics'; readonly id: number }
  | { readonly say: 'answer'; readonly id: number; readonly answer: string | null | Counted }
  | { readonly say: 'stop' }
  | { readonly say: 'break off' };

/** `taken`: the connection of that id is the worker's now. `load`: how many it has open. `answer`: of the primary's question. */
export type ToPrimary =
  | { readonly say: 'ready' }
  | { readonly say: 'failed'; readonly message: string }
  | { readonly say: 'taken'; readonly id: number }
  | { readonly say: 'load'; readonly open: number }
  | { readonly say: 'metrics of all'; readonly id: number }
  | { readonly say: 'request'; readonly id: number; readonly caller: string }
  | { readonly say: 'answer'; readonly id: number; readonly answer: string | null | Metrics };

/** Questions that wait for their answers, by id. */
export class Questions {
  private readonly waiting = new Map<number, { answer: (answer: unknown) => void; fail: (error: Error) => void }>();
  private nextId = 0;

  /** @param put sends the question with its id; what it answers is believed to be a `T` */
  ask<T>(put: (id: number) => void): Promise<T> {
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { answer: resolve as (answer: unknown) => void, fail: reject });
      put(id);
    });
  }

  answered(id: number, answer: unknown): void {
    this.waiting.get(id)?.answer(answer);
    this.waiting.delete(id);
  }

  /** Nobody is there any more who could answer. */
  abandon(error: Error): void {
    for (const { fail } of this.waiting.values()) fail(error);
    this.waiting.clear();
  }
}
