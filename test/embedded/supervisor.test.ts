/**
 * The states of one supervised server, with a start and a stop that the test can let succeed, fail or take their time.
 */
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EngineError } from '../../src/contract/errors.js';
import { type Running, Supervisor } from '../../src/embedded/supervisor.js';

/** Only the clock stands still; promises and `setImmediate` go on. */
beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

interface Start {
  readonly signal: AbortSignal;
  succeed(): void;
  fail(error: Error): void;
}

/** What stands behind a server: at most one start, one process, one stop at a time. */
class Machine {
  starts: Start[] = [];
  /** Ends the process that runs, as a crash does; null if none runs. */
  crash: ((reason: string) => void) | null = null;
  finishStop: (() => void) | null = null;
  started = 0;
  pauses: number[] = [];
  readonly wrong: string[] = [];
  readonly server = new Supervisor(
    {
      start: (signal) => this.start(signal),
      failed: (_reason, pauseMs) => void this.pauses.push(pauseMs),
    },
    Infinity,
  );

  private start(signal: AbortSignal): Promise<Running> {
    this.started++;
    if (this.starts.length > 0) this.wrong.push('two starts at once');
    if (this.crash !== null) this.wrong.push('a start while it runs');
    return new Promise((resolve, reject) => {
      const settle = (then: () => void) => () => {
        this.starts = [];
        then();
      };
      const succeed = settle(() => resolve(this.process()));
      this.starts.push({ signal, succeed, fail: (error) => settle(() => reject(error))() });
    });
  }

  private process(): Running {
    let end: (reason: string) => void = () => {};
    const ended = new Promise<string>((resolve) => (end = resolve));
    this.crash = (reason) => {
      this.crash = null;
      end(reason);
    };
    const stop = () =>
      new Promise<void>((resolve) => {
        if (this.finishStop !== null) this.wrong.push('two stops at once');
        this.finishStop = () => {
          this.finishStop = null;
          this.crash?.('stopped');
          resolve();
        };
      });
    return { ended, stop };
  }
}

const STEPS = [
  'acquire',
  'release',
  'stop',
  'succeed',
  'fail',
  'crash',
  'finish stop',
  'wait a little',
  'wait long',
] as const;
type Step = (typeof STEPS)[number];

/** Whoever has acquired, or waits for it. */
class Users {
  held = 0;
  waiting = 0;
  refused: unknown[] = [];

  constructor(private readonly machine: Machine) {}

  acquire(): void {
    const { server, wrong } = this.machine;
    const running = server.acquire();
    this.waiting++;
    const granted = () => {
      this.waiting--;
      this.held++;
      if (server.state !== 'running') wrong.push(`acquired while it is ${server.state}`);
    };
    if (running === undefined) return granted();
    running.then(granted, (error: unknown) => {
      this.waiting--;
      this.refused.push(error);
    });
  }

  release(): void {
    if (this.held === 0) return;
    this.held--;
    this.machine.server.release();
  }
}

async function take(step: Step, machine: Machine, users: Users): Promise<void> {
  const [start] = machine.starts;
  if (step === 'acquire') users.acquire();
  else if (step === 'release') users.release();
  else if (step === 'stop') void machine.server.stop();
  else if (step === 'succeed') start?.succeed();
  // As the real one: a start that was ended fails sooner or later.
  else if (step === 'fail') start?.fail(new Error('exit code 1'));
  else if (step === 'crash') machine.crash?.('signal 11');
  else if (step === 'finish stop') machine.finishStop?.();
  else vi.advanceTimersByTime(step === 'wait long' ? 100_000 : 100);
  await setImmediate();
}

/** Lets everything come to its end: starts succeed, stops end, pauses are over. */
async function settle(machine: Machine, users: Users): Promise<void> {
  for (let round = 0; round < 20; round++) {
    machine.finishStop?.();
    machine.starts[0]?.succeed();
    await setImmediate();
  }
  while (users.held > 0) users.release();
}

describe('any sequence of requests, stops, crashes and failed starts', () => {
  it('never starts twice at once, admits nobody before it runs, counts its users correctly, and settles', async () => {
    const sequences = fc.array(fc.constantFrom(...STEPS), { maxLength: 60 });
    const property = fc.asyncProperty(sequences, async (steps) => {
      const machine = new Machine();
      const users = new Users(machine);
      const { server } = machine;
      for (const step of steps) {
        const refusedBefore = users.refused.length;
        const pausing = (machine.pauses.at(-1) ?? 0) > 0;
        await take(step, machine, users);
        expect(machine.wrong, `after ${step}`).toEqual([]);
        expect(server.users, `users after ${step}`).toBe(users.held + users.waiting);
        // A stop refuses nobody: who comes meanwhile starts it again.
        const mayRefuse = step === 'fail' || pausing;
        expect(mayRefuse || users.refused.length === refusedBefore, `refused after ${step}`).toBe(true);
      }
      await settle(machine, users);
      expect(users.waiting).toBe(0);
      expect(server.users).toBe(0);
      expect(users.refused.every((error) => error instanceof EngineError)).toBe(true);
      expect(users.refused.map((error) => (error as EngineError).code)).toEqual(
        users.refused.map(() => 'database_unavailable'),
      );

      const closed = server.close();
      await settle(machine, users);
      await closed;
      expect(server.state).toBe('stopped');
      expect(machine.crash, 'a process is left').toBeNull();
      await expect(server.acquire()).rejects.toMatchObject({ code: 'database_unavailable' });
      expect(machine.wrong).toEqual([]);
    });
    await fc.assert(property, { numRuns: 400 });
  });
});

describe('one server', () => {
  let machine: Machine;
  let users: Users;
  beforeEach(() => {
    machine = new Machine();
    users = new Users(machine);
  });
  const run = async (...steps: Step[]) => {
    for (const step of steps) await take(step, machine, users);
  };

  it('starts once for all requests that arrive while it starts', async () => {
    await run('acquire', 'acquire', 'acquire');
    expect([machine.started, users.held, machine.server.users]).toEqual([1, 0, 3]);
    await run('succeed');
    expect(users.held).toBe(3);
    expect(machine.server.acquire()).toBeUndefined();
  });

  it('starts again for a request that arrived while it was being stopped', async () => {
    await run('acquire', 'succeed', 'release', 'stop', 'acquire');
    expect([machine.server.state, users.held]).toEqual(['stopping', 0]);
    await run('finish stop');
    expect([machine.server.state, machine.started]).toEqual(['starting', 2]);
    expect(machine.starts[0]?.signal.aborted).toBe(false);
    await run('succeed');
    expect([users.held, users.refused]).toEqual([1, []]);
  });

  it('aborts its start if it is stopped', async () => {
    await run('acquire');
    const [first] = machine.starts;
    void machine.server.close();
    expect(first?.signal.aborted).toBe(true);
    await run('fail');
    expect(users.refused).toMatchObject([{ code: 'database_unavailable' }]);
    expect([machine.server.state, machine.started, machine.pauses]).toEqual(['stopped', 1, []]);
  });

  it('is stopped if it comes up after a stop was requested', async () => {
    await run('acquire');
    const closed = machine.server.close();
    await run('succeed', 'finish stop');
    await closed;
    expect([machine.server.state, machine.crash, users.held]).toEqual(['stopped', null, 0]);
  });

  it('waits longer after each crash, says for how long, and resets the wait after a minute of work', async () => {
    const cycle = async (): Promise<void> => {
      await run('acquire', 'succeed', 'crash', 'release');
    };
    for (let crash = 0; crash < 12; crash++) {
      vi.advanceTimersByTime(machine.pauses.at(-1) ?? 0);
      await cycle();
    }
    expect(machine.pauses).toEqual([0, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000]);
    await run('acquire');
    expect(users.refused).toMatchObject([{ code: 'database_unavailable', retryAfter: 30 }]);

    vi.advanceTimersByTime(30_000);
    await run('acquire', 'succeed');
    vi.advanceTimersByTime(61_000);
    await run('crash');
    expect(machine.pauses.at(-1)).toBe(0);
  });

  it('also forgets earlier crashes after a minute of work that ended with a stop', async () => {
    await run('acquire', 'succeed', 'crash', 'acquire', 'succeed', 'crash', 'wait long', 'acquire', 'succeed');
    expect(machine.pauses).toEqual([0, 250]);
    await run('wait long', 'stop', 'finish stop', 'acquire', 'succeed', 'crash');
    expect(machine.pauses).toEqual([0, 250, 0]);
  });

  it('is refused during a pause, and starts after it', async () => {
    machine.server.pause(10_000, 'filled the disk');
    await run('acquire');
    expect(users.refused).toMatchObject([{ code: 'database_unavailable', retryAfter: 10 }]);
    expect(String(users.refused[0])).toContain('server filled the disk, and will be started again shortly');
    expect([machine.started, machine.server.users]).toEqual([0, 0]);
    vi.advanceTimersByTime(10_000);
    await run('acquire', 'succeed');
    expect(users.held).toBe(1);
  });

  it('waits for the end of a process that an earlier service left behind', async () => {
    let end = (): void => {};
    machine.server.awaitEnd(new Promise<void>((resolve) => (end = resolve)));
    await run('acquire');
    expect(machine.started).toBe(0);
    end();
    await run('succeed');
    await run('succeed');
    expect(users.held).toBe(1);
  });
});
