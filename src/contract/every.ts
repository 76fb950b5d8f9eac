/**
 * Does work at an interval, without keeping the process running. No run begins before the previous one has ended.
 * @param failed by default, a failure is ignored: the next run comes soon
 * @returns a function that stops it
 */
export function every(ms: number, work: () => unknown, failed: (error: unknown) => void = () => {}): () => void {
  let isRunning = false;
  const run = async () => {
    if (isRunning) return;
    isRunning = true;
    try {
      await work();
    } catch (error) {
      failed(error);
    } finally {
      isRunning = false;
    }
  };
  const timer = setInterval(() => void run(), ms).unref();
  return () => clearInterval(timer);
}
