/** CPU time and memory of processes, from Linux's /proc (proc(5)). */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

/** USER_HZ, 100 wherever Linux runs on x86 and ARM. */
const TICKS = 100;

/** Fields of /proc/PID/stat after the name, which may contain blanks: state is 0, ppid 1, utime 11, … cstime 14. */
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
 * CPU seconds of a postmaster and all its children. When a child ends, its time is added to the postmaster's; if that
 * happens while the children are read, they are read again.
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

/** CPU seconds that the whole machine was busy: all of the first line of /proc/stat except idle and iowait. */
export function cpuOfMachine() {
  const [user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'latin1')
    .split('\n', 1)[0]
    .split(/ +/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq + steal) / TICKS;
}

/** Memory of a process in MiB: now (VmRSS) and at its peak (VmHWM). */
export function memoryOf(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  const mib = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
  return { now: mib('VmRSS'), most: mib('VmHWM') };
}

/** Resets the peak of a process to what it holds now (proc(5), clear_refs). */
export const resetMost = (pid) => writeFileSync(`/proc/${pid}/clear_refs`, '5');

export const loadAverage = () => readFileSync('/proc/loadavg', 'latin1').split(' ').slice(0, 3).join(' ');

export const machine = () => `${cpus().length} cores (${cpus()[0].model.trim()}), Node ${process.version}`;
