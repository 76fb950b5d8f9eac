/**
 * Which installation writes to a backup folder. An installation that was restored from the folder has a higher epoch: the
 * old one, should it come back, must not overwrite what the new one saves.
 */
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode, isMissing, replaceFile } from '../../files.js';
import { Type, type Static } from '../../contract/schema.js';
import { describes } from '../../contract/validator.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import { parseJson } from '../manifest.js';

/** In the folder. */
const EPOCH_FILE = 'epoch';

const Epoch = Type.Object({ installation: Type.String(), epoch: Type.Integer({ minimum: 1 }) });
export type Epoch = Static<typeof Epoch>;

const isEpoch = describes(Epoch);

export const ownEpoch = async ({
  control,
}: {
  control: Pick<ControlDatabase, 'instanceId' | 'backups'>;
}): Promise<Epoch> => ({
  installation: control.instanceId,
  epoch: await control.backups.epoch(),
});

/** @returns null if the folder is missing, or nothing has been saved in it. @throws Error if it is not valid */
export async function readEpoch(folder: string): Promise<Epoch | null> {
  let bytes: Buffer;
  try {
    bytes = await readFile(join(folder, EPOCH_FILE));
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
  const value = parseJson(bytes);
  if (!isEpoch(value)) throw new Error(`${join(folder, EPOCH_FILE)} is damaged: this is not a backup folder of cdp`);
  return value;
}

export const writeEpoch = (folder: string, { installation, epoch }: Epoch): Promise<void> =>
  replaceFile(join(folder, EPOCH_FILE), `${JSON.stringify({ installation, epoch })}\n`, 0o600);

/** The installation was restored from its backup folder, probably on another machine. */
export class RestoredElsewhere extends Error {
  constructor(folder: string) {
    super(
      `This installation was restored from ${folder}, and another service continues it. ` +
        'To give it up, remove this data folder. To continue here instead, stop the other service and save into another folder',
    );
  }
}

/** @throws RestoredElsewhere */
export function requireCurrent(folder: string, own: Epoch, found: Epoch | null): void {
  if (found?.installation === own.installation && found.epoch > own.epoch) throw new RestoredElsewhere(folder);
}

/**
 * Makes the folder the installation's own.
 * @param isKnown whether the installation has saved into it before
 * @throws Error that says what to do, RestoredElsewhere; the system's error
 */
export async function claimFolder(folder: string, own: Epoch, isKnown: boolean): Promise<void> {
  const found = await readEpoch(folder);
  if (found === null) {
    if (isKnown) {
      throw new Error(
        `${folder} does not have the earlier backups: is its disk mounted? To begin anew there: cdp backup --to ${folder} --new`,
      );
    }
    await makeEmpty(folder);
    return writeEpoch(folder, own);
  }
  requireSame(folder, own, found);
  requireCurrent(folder, own, found);
  if (found.epoch < own.epoch) await writeEpoch(folder, own);
}

/**
 * Asked again before each change: the folder may have been unmounted, or have gone to another, since it was claimed.
 * @throws Error that says what has become of it, RestoredElsewhere; the system's error
 */
export async function requireClaimed(folder: string, own: Epoch): Promise<void> {
  const found = await readEpoch(folder);
  if (found === null) throw new Error(`${folder} has lost its backups during this one: is its disk mounted?`);
  requireSame(folder, own, found);
  requireCurrent(folder, own, found);
}

function requireSame(folder: string, own: Epoch, found: Epoch): void {
  if (found.installation !== own.installation)
    throw new Error(`${folder} has the backup of another installation. Choose another folder`);
}

async function makeEmpty(folder: string): Promise<void> {
  await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
    if (!hasCode(error, 'EEXIST')) throw error;
  });
  if ((await readdir(folder)).some((name) => name !== 'lost+found'))
    throw new Error(`${folder} is not empty, and is not a backup folder of cdp. Choose another folder`);
}
