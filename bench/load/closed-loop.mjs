/**
 * The loop of both load generators: every connection sends a request, waits for the response, and sends the next.
 * Requests are built before the clock starts.
 */

/**
 * @typedef {object} Load
 * @property {Uint8Array[]} requests sent in turn, over all connections together
 * @property {number} seconds no request is sent after this time; the loop waits for those under way
 * @property {number} [atMost] maximum number of requests to send
 *
 * @typedef {object} Counted
 * @property {number[]} acknowledged good responses to each of `requests`
 * @property {number} responses their sum
 * @property {number} seconds from the first request to the last response
 * @property {number} bytes of all responses, as the reader counts them
 * @property {number} p50 median time of a response, in milliseconds
 * @property {number} p99 the time that 99 of 100 responses stay within, in milliseconds
 */

/**
 * @param {import('node:net').Socket[]} sockets connected, without listeners
 * @param {Load} load
 * @param {(onAnswer: (bytes: number) => void, index: number) => (chunk: Buffer) => void} reader made for each socket;
 *   it gets the bytes that arrive, and throws for a response that is a failure
 * @returns {Promise<Counted>}
 * @throws Error for the first failure
 */
export function closedLoop(sockets, { requests, seconds, atMost = Infinity }, reader) {
  return new Promise((resolve, reject) => {
    const acknowledged = new Array(requests.length).fill(0);
    const times = [];
    let sent = 0;
    let bytes = 0;
    let busy = sockets.length;
    const started = performance.now();
    const until = started + seconds * 1000;

    const finish = () => {
      const elapsed = (performance.now() - started) / 1000;
      times.sort((a, b) => a - b);
      const p50 = times[times.length >> 1] ?? 0;
      const p99 = times[Math.floor(times.length * 0.99)] ?? 0;
      resolve({ acknowledged, responses: times.length, seconds: elapsed, bytes, p50, p99 });
    };

    for (const [index, socket] of sockets.entries()) {
      let current = 0;
      let sentAt = 0;
      const next = () => {
        sentAt = performance.now();
        if (sent >= atMost || sentAt >= until) {
          if (--busy === 0) finish();
          return;
        }
        current = sent++ % requests.length;
        socket.write(requests[current]);
      };
      const feed = reader((size) => {
        times.push(performance.now() - sentAt);
        acknowledged[current]++;
        bytes += size;
        next();
      }, index);
      socket.on('data', (chunk) => {
        try {
          feed(chunk);
        } catch (error) {
          reject(error);
        }
      });
      socket.on('error', reject);
      socket.on('close', () => reject(new Error('the server closed a connection')));
      next();
    }
  });
}
