/** Folders for servers and programs of tests: in memory where the machine has room for them, else on the disk. */
import { mkdtempSync, readFileSync, statfsSync } from 'node:fs';
import { platform } from 'node:os';
import { join } from 'node:path';
import { listFolder } from './interrupted-run.js';

const MEMORY = '/dev/shm';

/** A few times what a whole run needs. */
const ENOUGH_BYTES = 6 * 2 ** 30;

/** Servers of tests write thousands of small files that nobody keeps: on a disk, they take a third of all the time. */
const place = hasRoomInMemory() ? MEMORY : '/tmp';

/** Makes an empty folder. Its path is short, so that sockets fit into it. @param prefix of its name */
export function makeFolder(prefix: string): string {
  const folder = mkdtempSync(join(place, prefix));
  listFolder(folder);
  return folder;
}

function hasRoomInMemory(): boolean {
  if (platform() !== 'linux') return false;
  const mount = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
    .find(([, where]) => where === MEMORY);
  // Programs and libraries are put there, too.
  if (mount?.[2] !== 'tmpfs' || mount[3]?.split(',').includes('noexec') === true) return false;
  const { bavail, bsize } = statfsSync(MEMORY);
  return Math.min(bavail * bsize, process.availableMemory()) >= ENOUGH_BYTES;
}
