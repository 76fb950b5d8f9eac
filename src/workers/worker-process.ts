/** One worker as its primary sees it: a child process, the connections on their way to it, and what it is asked. */
import { type ChildProcess, fork } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { type ListenerName, type Metrics, type Orders, Questions, type ToPrimary, type ToWorker } from './messages.js';

/** The same file from `src/` (tests, which run after a build) and from `dist/`: a process takes no TypeScript. */
const PROGRAM = new URL('../../dist/workers/worker.js', import.meta.url);

/** A connection that is to be served by some worker. */
export interface Connection {
  readonly socket: Socket;
  readonly listener: ListenerName;
}

/** What a worker wants of the service as a whole. */
export interface WorkerEvents {
  /** For a request that asks for the metrics of all. */
  metricsOfAll(): Promise<string>;
  /** For a rate limit. */
  countRequest(caller: string): { count: number; msLeft: number };
}

export class WorkerProcess {
  readonly number: number;
  /** Rejects with what the worker says where it cannot start, or with how it ended. */
  readonly started: Promise<void>;
  /** How it ended, in words. */
  readonly ended: Promise<string>;
  isReady = false;
  private readonly child: ChildProcess;
  private readonly questions = new Questions();
  /** Handed over, and not said to be there yet; a worker that ends before that leaves them to others. */
  private readonly underWay = new Map<number, Connection>();
  /** Connections that it had open when it last said so, and those that it has taken since. */
  private open = 0;
  private nextId = 0;

  constructor(
    orders: Orders,
    private readonly events: WorkerEvents,
  ) {
    this.number = orders.number;
    this.child = fork(PROGRAM, {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
      // A Ctrl-C in the terminal is for the primary alone, also while the worker is starting. And where the scheduler gives
      // each session its share (sched(7), "autogroup"), a worker does not share one with the others.
      detached: true,
    });
    this.ended = new Promise((resolve) => {
      this.child.once('error', (error) => resolve(error.message));
      this.child.once('exit', (code, signal) => {
        const end = () => resolve(signal ?? `exit code ${code}`);
        // What it has said is read to the end: connections that it took are not left behind.
        if (this.child.connected) this.child.once('disconnect', end);
        else end();
      });
    });
    this.started = new Promise((resolve, reject) => {
      this.child.on('message', (message: ToPrimary) => {
        if (message.say === 'ready') resolve();
        else if (message.say === 'failed') reject(new Error(message.message));
        else this.hear(message);
      });
      void this.ended.then((how) => reject(new Error(`A worker ended while it was starting (${how})`)));
    });
    // Whoever waits for the start hears of it; one that takes the place of another is watched for its end.
    this.started.then(
      () => (this.isReady = true),
      () => {},
    );
    void this.ended.then((how) => {
      this.isReady = false;
      this.questions.abandon(new Error(`The worker ended (${how})`));
    });
    this.say({ say: 'start', orders });
  }

  /** Its log. */
  get output(): Readable {
    return this.child.stdout as Readable;
  }

  /** Connections that it has open or will have in a moment. */
  get load(): number {
    return this.open + this.underWay.size;
  }

  take(connection: Connection): void {
    const id = this.nextId++;
    this.underWay.set(id, connection);
    const { socket, listener } = connection;
    // Kept open here until the worker says that it has it.
    this.child.send({ say: 'connection', id, listener }, socket, { keepOpen: true }, () => {});
  }

  /** Connections that it was given and has not taken; call it when it has ended. */
  leftBehind(): Connection[] {
    const left = [...this.underWay.values()];
    this.underWay.clear();
    return left;
  }

  /**
   * The token of the first project, where this is the first start of an embedded database.
   * @throws Error where the worker ends before it answers
   */
  welcome(): Promise<string | null> {
    return this.questions.ask((id) => this.say({ say: 'welcome', id }));
  }

  /** @throws Error where the worker ends before it answers */
  metrics(): Promise<Metrics> {
    return this.questions.ask((id) => this.say({ say: 'metrics', id }));
  }

  say(message: ToWorker): void {
    // One that has just ended is noticed elsewhere.
    if (this.child.connected) this.child.send(message, () => {});
  }

  kill(): void {
    this.child.kill('SIGKILL');
  }

  private hear(message: Exclude<ToPrimary, { say: 'ready' | 'failed' }>): void {
    switch (message.say) {
      case 'taken':
        this.underWay.get(message.id)?.socket.destroy();
        this.underWay.delete(message.id);
        this.open++;
        break;
      case 'load':
        this.open = message.open;
        break;
      case 'metrics of all':
        void this.events
          .metricsOfAll()
          .catch(() => null)
          .then((answer) => this.say({ say: 'answer', id: message.id, answer }));
        break;
      case 'request':
        this.say({ say: 'answer', id: message.id, answer: this.events.countRequest(message.caller) });
        break;
      case 'answer':
        this.questions.answered(message.id, message.answer);
    }
  }
}
