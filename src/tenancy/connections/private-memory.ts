/** How much memory of its own a Postgres process has, as Linux tells it of processes on this machine. */
import { readFile } from 'node:fs/promises';

/** @returns MiB that the process shares with nobody (RssAnon, proc_pid_status(5)); null if it is no Postgres here */
export async function privateMemoryMib(pid: number): Promise<number | null> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => '');
  const [, kib] = /^Name:\tpostgres\n[^]*^RssAnon:\s+(\d+) kB$/m.exec(status) ?? [];
  return kib === undefined ? null : Number(kib) / 1024;
}
