/** Limits how many servers start at once; first come, first served. */

/** After this time a start, for instance one with a recovery, no longer blocks the next one. */
const TURN_MS = 2_000;

export class StartQueue {
  private starting = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly atOnce: number) {}

  async run<T>(start: () => Promise<T>): Promise<T> {
    if (this.starting < this.atOnce) this.starting++;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
    let over = false;
    const end = () => {
      if (over) return;
      over = true;
      const next = this.waiting.shift();
      if (next === undefined) this.starting--;
      else next();
    };
    const timer = setTimeout(end, TURN_MS).unref();
    try {
      return await start();
    } finally {
      clearTimeout(timer);
      end();
    }
  }
}
