/** The findings of `cdp doctor` about the machine of embedded servers: disk, process limits, libraries. */
import { statfs } from 'node:fs/promises';
import { roundedSize } from '../../contract/disk-size.js';
import { problem, warning, ok, type Finding } from '../../contract/wire/findings.js';
import { loadedLibraries, replacedFiles } from '../../embedded/libraries.js';
import { BOUNDED, loadedLibxml } from '../../embedded/libxml.js';
import { limitsOf } from '../../embedded/process-limits.js';
import { isOnReadOnlyDisk } from '../../files.js';
import { isOlder } from '../../version.js';

/** The free share of the disk, or bytes, below which to warn: one large import may fill the rest. */
const DISK = { share: 0.1, bytes: 2 * 1024 ** 3, least: 256 * 1024 ** 2 };

const REMOUNT =
  'Linux does this when a disk is damaged, see dmesg. Check it, mount it with writes, and start the service again.';

/** @param folder of an embedded server @param reserve in bytes, see the setting disk-reserve-mib */
export async function examineDisk(folder: string, reserve: number): Promise<Finding> {
  const { bavail, blocks, bsize } = await statfs(folder);
  const [free, all] = [bavail * bsize, blocks * bsize];
  const result = `${roundedSize(free)} of ${roundedSize(all)} free`;
  const advice =
    `Free space on the disk of ${folder}: delete other files, projects, or their tables (DROP and TRUNCATE free space ` +
    'at once); cdp project list shows the sizes. Or limit projects: cdp project quota, or the setting project-quota. If ' +
    'less than the setting disk-reserve-mib is free, projects can only be read.';
  if (await isOnReadOnlyDisk(folder)) return problem('disk', 'its file system is read-only', REMOUNT);
  if (free < reserve) return problem('disk', `${result}: projects can only be read`, advice);
  if (free < DISK.least) return problem('disk', result, advice);
  return free < DISK.bytes || free < all * DISK.share ? warning('disk', result, advice) : ok('disk', result);
}

/** @param postmaster process id of an embedded server. @returns nothing if the system does not say */
export async function examineLimits(postmaster: number): Promise<Finding[]> {
  const limits = await limitsOf(postmaster);
  if (limits === null) return [];
  const { stackMib, dataMib, hasFullStack } = limits;
  const subject = 'limits';
  const memory = dataMib === Infinity ? 'unlimited memory' : `${dataMib} MiB of memory`;
  const result = `per Postgres process: ${memory}, ${stackMib} MiB of stack`;
  if (hasFullStack) return [ok(subject, result)];
  const advice =
    'Raise the hard limit to 256 MiB (LimitSTACK= in the unit, `ulimit -Hs`, ulimits of the container): deeply nested SQL can exceed a small stack and crash the server.';
  return [warning(subject, `${result}, because of the hard limit`, advice)];
}

/** @param postmaster process id of an embedded server. @returns nothing if the system does not say */
export async function examineLibraries(postmaster: number): Promise<Finding[]> {
  const [versions, replaced] = [await loadedLibraries(postmaster), await replacedFiles(postmaster)];
  const advice = 'Restart the service: until then its servers run what was there before the update.';
  if (replaced.length > 0) return [warning('libraries', `replaced while in use: ${replaced.join(', ')}`, advice)];
  return versions.length === 0 ? [] : [ok('libraries', versions.join(', '))];
}

/** @param postmaster process id of an embedded server. @returns nothing if the system does not say */
export async function examineLibxml(postmaster: number): Promise<Finding[]> {
  const loaded = await loadedLibxml(postmaster);
  if (loaded === null) return [];
  const result = `${loaded.version}, ${loaded.path}`;
  if (!isOlder(loaded.version, BOUNDED)) return [ok('libxml2', result)];
  const advice = `Install libxml2 ${BOUNDED} to 2.13 on the system and restart: this one crashes on deeply nested XPath.`;
  return [warning('libxml2', result, advice)];
}
