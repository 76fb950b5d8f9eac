/**
 * The well-behaved project, a process of its own: four connections, each with one kind of request at a fixed rate. A
 * request's time counts from the moment it was due, so that it includes the wait for a late request before it.
 */
import { Agent, request as httpRequest } from 'node:http';
import { setPriority } from 'node:os';
import { writeFileSync } from 'node:fs';

try {
  // The clock must not be slow because the machine is busy.
  setPriority(-15);
  writeFileSync('/proc/self/autogroup', '-15');
} catch {
  // Only root may.
}

process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));
process.on('message', async (order) => process.send(await run(order)));

/**
 * @param {{ port: number, token: string, seconds: number,
 *   kinds: { name: string, perSecond: number, path: string, bodies: string[], from: number }[] }} order
 * @returns {Promise<Record<string, { times: number[], failures: Record<string, number> }>>} by kind; times in ms
 */
async function run({ port, token, seconds, kinds }) {
  const measured = await Promise.all(kinds.map((kind) => atRate(kind, { port, token, seconds })));
  return Object.fromEntries(kinds.map(({ name }, i) => [name, measured[i]]));
}

async function atRate({ perSecond, path, bodies, from }, { port, token, seconds }) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const times = [];
  const failures = {};
  const started = performance.now();
  const count = Math.max(1, Math.floor(seconds * perSecond));
  for (let i = 0; i < count; i++) {
    const due = started + (i / perSecond) * 1000;
    const early = due - performance.now();
    if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
    const failure = await send(agent, port, token, path, bodies[i % bodies.length].replaceAll('#N', String(from + i)));
    times.push(performance.now() - due);
    if (failure !== null) failures[failure] = (failures[failure] ?? 0) + 1;
    // Requests this late are already counted; the measurement must end.
    if (performance.now() - started > seconds * 3000) break;
  }
  agent.destroy();
  return { times, failures };
}

/** @returns {Promise<string | null>} what went wrong */
function send(agent, port, token, path, body) {
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  };
  return new Promise((resolve) => {
    const request = httpRequest({ agent, port, host: '127.0.0.1', method: 'POST', path, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part) => (text += part));
      response.on('end', () =>
        resolve(response.statusCode < 300 ? null : `${response.statusCode} ${JSON.parse(text).error}`),
      );
      response.on('error', (error) => resolve(String(error.code ?? error)));
    });
    request.on('error', (error) => resolve(String(error.code ?? error)));
    request.end(body);
  });
}
