/** CPU time and memory of processes, from Linux's /proc (proc(5)). */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

/** USER_HZ, 100 wherever Linux runs on x86 and ARM. */
const TICKS = 100;

/** Fields of /proc/PID/stat behind the name, which may hold blanks: state is 0, ppid 1, utime 11, … cstime 14. */
function stat(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return Object.assign(fields.map(Number), { pid });
  } catch {
    return null; // it has ended
  }
}

/** CPU seconds of one process, with its threads. */
export function cpuOf(pid) {
  const fields = stat(pid);
  return fields === null ? 0 : (fields[11] + fields[12]) / TICKS;
}

/**
 * CPU seconds of a postmaster and all its children. Those of a child that has ended are the postmaster's once it has
 * taken note of that; if this happens while the children are looked at, they are looked at again.
 */
export function cpuOfTree(pid) {
  for (;;) {
    const own = stat(pid);
    if (own === null) return 0;
    const living = childrenOf(pid).reduce((sum, fields) => sum + fields[11] + fields[12], 0);
    const later = stat(pid);
    if (later === null) return 0;
    const ended = own[13] + own[14];
    if (later[13] + later[14] === ended) return (own[11] + own[12] + ended + living) / TICKS;
  }
}

function childrenOf(pid) {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return all.map(stat).filter((fields) => fields !== null && fields[1] === pid);
}

/** CPU seconds that the whole machine was busy: everything of the first line of /proc/stat but idle and iowait. */
export function cpuOfMachine() {
  const [user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'latin1')
    .split('\n', 1)[0]
    .split(/ +/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq + steal) / TICKS;
}

/** Memory of a process in MiB: what it holds now (VmRSS) and the most it ever held (VmHWM). */
export function memoryOf(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  const mib = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
  return { now: mib('VmRSS'), most: mib('VmHWM') };
}

/** Makes the most that a process held be what it holds now (proc(5), clear_refs). */
export const resetMost = (pid) => writeFileSync(`/proc/${pid}/clear_refs`, '5');

export const loadAverage = () => readFileSync('/proc/loadavg', 'latin1').split(' ').slice(0, 3).join(' ');

export const machine = () => `${cpus().length} cores (${cpus()[0].model.trim()}), Node ${process.version}`;
