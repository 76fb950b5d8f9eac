/** The load generator, as seen from its parent process. */
import { fork } from 'node:child_process';
import { cpuOf } from '../cpu.mjs';

export class Generator {
  /** @param {string} file `load.mjs` or `raw.mjs` */
  constructor(file) {
    // Advanced serialization keeps bytes as bytes.
    this.child = fork(new URL(`../${file}`, import.meta.url), { serialization: 'advanced' });
    this.child.on('error', () => {});
  }

  /**
   * @param {object} order see the file
   * @returns {Promise<import('./closed-loop.mjs').Counted & { body?: Uint8Array }>}
   * @throws Error of the first failure
   */
  run(order) {
    return new Promise((resolve, reject) => {
      const ended = () => reject(new Error('a load generator ended by itself'));
      this.child.once('exit', ended);
      this.child.once('message', ({ counted, failure }) => {
        this.child.off('exit', ended);
        if (failure === undefined) resolve(counted);
        else reject(new Error(failure));
      });
      this.child.send(order);
    });
  }

  get cpu() {
    return cpuOf(this.child.pid);
  }

  stop() {
    this.child.kill('SIGKILL');
  }
}
