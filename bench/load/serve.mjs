/** Runs a load generator as a process: its parent sends orders, one at a time, and gets counts back. */

/** @param {(order: object) => Promise<object>} run */
export async function serve(run) {
  // Ctrl-C reaches the whole terminal; the parent decides when this process ends.
  process.on('SIGINT', () => {});
  process.on('disconnect', () => process.exit(0));
  process.on('message', async (order) => {
    try {
      process.send({ counted: await run(order) });
    } catch (error) {
      process.send({ failure: error instanceof Error ? error.message : String(error) });
    }
  });
}
