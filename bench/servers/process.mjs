/** Child processes of the benchmark: each leads its own process group, which is stopped as a whole. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const START_MS = 60_000;
const STOP_MS = 30_000;

/**
 * @param {string} log file for its output
 * @param {{ env: object, cwd: string, ipc?: boolean, account?: { uid?: number, gid?: number } }} options
 */
export function start(program, args, log, { env, cwd, ipc = false, account = {} }) {
  const out = openSync(log, 'a');
  const stdio = ['ignore', out, out, ...(ipc ? ['ipc'] : [])];
  const child = spawn(program, args, { env, cwd, stdio, detached: true, ...account });
  closeSync(out);
  child.on('error', () => {}); // it shows as an exit
  return child;
}

/** Sends SIGTERM, and SIGKILL after a while. */
export async function stop(child) {
  if (hasEnded(child)) return;
  const ended = once(child, 'exit');
  const late = setTimeout(() => signal(child, 'SIGKILL'), STOP_MS);
  signal(child, 'SIGTERM');
  await ended;
  clearTimeout(late);
}

function signal(child, name) {
  try {
    process.kill(-child.pid, name);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

const hasEnded = (child) => child.pid === undefined || child.exitCode !== null || child.signalCode !== null;

/**
 * Asks again until the response is good.
 * @param {() => Promise<T>} ask rejects until it is
 * @param {number} everyMs
 * @returns {Promise<T>}
 * @throws Error with the end of the log if the child ended or never became ready
 * @template T
 */
export async function ready(child, log, ask, everyMs = 20) {
  const deadline = Date.now() + START_MS;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (hasEnded(child) || Date.now() > deadline) {
        throw new Error(`${child.spawnfile} did not start: ${error}\n${readFileSync(log, 'utf8').slice(-2000)}`);
      }
      await sleep(everyMs);
    }
  }
}

/** A port of loopback that was free a moment ago. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}
