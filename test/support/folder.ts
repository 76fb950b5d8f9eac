/** Folders for servers and programs of tests: in memory where the machine has room for them, else on the disk. */
import { appendFileSync, mkdtempSync, readFileSync, statfsSync } from 'node:fs';
import { platform } from 'node:os';
import { join } from 'node:path';

const MEMORY = '/dev/shm';

/** A few times what a whole run needs. */
const ENOUGH_BYTES = 6 * 2 ** 30;

/** Servers of tests write thousands of small files that nobody keeps: on a disk, they take a third of all the time. */
const place = hasRoomInMemory() ? MEMORY : '/tmp';

/** Variable with the path of a file that lists the folders of the run, which an interrupted run removes. */
export const FOLDERS_OF_RUN = 'CDP_TEST_FOLDERS';

/** Makes an empty folder. Its path is short, so that sockets fit into it. @param prefix of its name */
export function makeFolder(prefix: string): string {
  const folder = mkdtempSync(join(place, prefix));
  noteFolder(folder);
  return folder;
}

/** Lists a folder, or one in it with a server that an interrupted run ends. */
export function noteFolder(folder: string): void {
  const list = process.env[FOLDERS_OF_RUN];
  if (list !== undefined) appendFileSync(list, `${folder}\n`);
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
